// Which words of memory stand for a fact: while they are what they were, it
// holds.

#include "python/capture/guards/state_guards.h"
#include "python/capture/guards/state_reading.h"
#include "python/capture/values/places.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// The words of an instance, which had `noted` for its dict; `add` takes a
// place. An earlier fact of its own may tell of its class.
template <typename Add>
void AddWordsOfInstance(PyObject* instance, PyObject* noted, bool has_class,
                        const Add& add) {
  if (!has_class) add(&instance->ob_type);
  add(DictPlace(instance));
  // One that it got since, without an item so far.
  PyObject* dict = InstanceDict(instance);
  if (dict == nullptr || dict == noted) return;
  add(VersionPlace(reinterpret_cast<PyDictObject*>(dict)));
}

template <typename Add>
void AddWordsOfFunction(PyObject* object, const Add& add) {
  const auto* function = reinterpret_cast<PyFunctionObject*>(object);
  add(&function->func_code);
  add(&function->func_defaults);
  add(&function->func_kwdefaults);
}

template <typename Add>
void AddWordsOfTensor(PyObject* tensor, const Add& add) {
  const auto places = TensorMeta::Places(tensor);
  if (places.empty()) return;  // Its type alone doesn't say enough.
  add(&tensor->ob_type);
  for (const void* at : places) add(at);
}

}  // namespace

void StateGuards::NoteWords(uint32_t number, NotedWords* words) const {
  const auto [kind, index] = facts_[number];
  const auto add = [&](const void* at) {
    if (at != nullptr) words->Add(at, number);
  };
  // Behind the pointer to what is held by its place: another object may have
  // its address. (A tensor's own words say so.)
  const auto add_type = [&](const Kept& kept) {
    if (kept.is_by_place() && !IsTensor(kept.get())) {
      add(&kept.get()->ob_type);
    }
  };
  switch (kind) {
    case Kind::kDict:
      return add(VersionPlace(
          reinterpret_cast<PyDictObject*>(dicts_[index].dict.get())));
    case Kind::kInstance: {
      PyObject* instance = instances_[index].instance.get();
      return AddWordsOfInstance(instance, instances_[index].dict.get(),
                                known_classes_of_.contains(instance), add);
    }
    case Kind::kType: {
      const TypeFacts& facts = types_[index];
      const void* at = VersionPlace(AsType(facts.type.get()));
      return facts.version == 0 ? words->AddChanged(at, number) : add(at);
    }
    case Kind::kFunction:
      return AddWordsOfFunction(functions_[index].function.get(), add);
    case Kind::kCell:
      add(&reinterpret_cast<PyCellObject*>(cells_[index].cell.get())->ob_ref);
      return add_type(cells_[index].value);
    case Kind::kSlot: {
      const SlotFacts& facts = slots_[index];
      const void* place = SlotPlace(facts.owner.get(), facts.member.get());
      if (place == nullptr) return;
      add(place);
      return add_type(facts.value);
    }
    case Kind::kItems: {
      const auto places = PlacesOfItems(items_[index].container.get());
      if (places.empty()) return;  // Its items' classes don't say enough.
      for (const void* at : places) add(at);
      for (const Kept& item : items_[index].items) add_type(item);
      return;
    }
    case Kind::kClassOf:
      return add(&classes_of_[index].object.get()->ob_type);
    case Kind::kTensor:
      return AddWordsOfTensor(tensors_[index].tensor.get(), add);
    case Kind::kAnswer:
      return add(answers_[index].place);
    case Kind::kContextVar:
    case Kind::kWeakRef:
    case Kind::kLock:
    case Kind::kArray:
      return;
  }
}

}  // namespace mica
