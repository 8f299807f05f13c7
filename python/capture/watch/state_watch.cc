#include "python/capture/watch/state_watch.h"

namespace mica {

StateWatch::StateWatch(PyFrameObject* caller)
    : ground_(caller),
      sizes_(ground_),
      loops_(ground_),
      ways_(ground_),
      last_calls_(ground_),
      containers_(ground_),
      dying_(ground_, containers_),
      written_(ground_, containers_),
      caches_(ground_),
      handles_(ground_),
      identity_(ground_, handles_),
      later_pass_(ground_, identity_),
      arrays_(ground_),
      places_(ground_, last_calls_, written_),
      objects_(ground_, {last_calls_, containers_, written_, caches_, identity_,
                         places_}),
      numbers_(ground_, objects_, arrays_),
      arithmetic_(ground_, arrays_, objects_, numbers_),
      functions_(ground_, written_, identity_, objects_, numbers_),
      tensors_(ground_, objects_, arrays_, numbers_, handles_),
      attributes_(
          ground_,
          {last_calls_, identity_, objects_, numbers_, tensors_, places_},
          [this](PyObject* getter, PyObject* owner) {
            calls_.Call(getter, {&owner, 1});
          }),
      items_(ground_, {last_calls_, containers_, handles_, identity_, objects_,
                       numbers_, places_}),
      host_calls_(ground_, {last_calls_, containers_, written_, objects_}),
      draws_(ground_, objects_, host_calls_),
      grown_(ground_, containers_, written_, draws_),
      tables_(ground_, containers_, draws_),
      generators_(ground_, objects_, numbers_),
      messages_(ground_, {containers_, written_, objects_, host_calls_}),
      texts_(ground_, objects_, attributes_, items_),
      sources_(ground_),
      annotated_(ground_, {objects_, tensors_, host_calls_, draws_, generators_,
                           messages_}),
      builtins_(ground_, {containers_, handles_, identity_, arrays_, objects_,
                          numbers_, functions_, tensors_, attributes_, items_,
                          texts_, host_calls_, messages_, annotated_}),
      calls_(ground_, {loops_, caches_, identity_, arrays_, objects_, numbers_,
                       functions_, tensors_, attributes_, host_calls_,
                       generators_, annotated_, builtins_}) {}

void StateWatch::BeginStep() {
  ground_.step = WatchStep();
  sizes_.BeginStep();
  loops_.BeginStep();
  sources_.BeginStep();
  numbers_.BeginStep();
  host_calls_.BeginStep();
}

void StateWatch::EndStep(PyObject** top, bool entered) {
  const auto result = [top] { return top == nullptr ? nullptr : *top; };
  host_calls_.EndStep(result());
  draws_.EndStep(top);
  grown_.EndStep(top);
  tables_.EndStep(top);
  if (refusals().is_stopped()) return;
  dying_.EndStep();
  if (refusals().is_stopped()) return;
  handles_.EndStep(result());
  identity_.EndStep(result());
  arrays_.EndStep(result());
  arithmetic_.EndStep(top);
  PyObject* given = result();
  if (ground_.step.makes_new && given != nullptr) ages().PinYoung(given);
  if (ground_.step.makes_iterator && given != nullptr &&
      !PyObject_IS_GC(given) && PyIter_Check(given)) {
    ages().AddYoung(given);  // Of a range.
  }
  loops_.EndStep(top);
  numbers_.EndStep(top);
  sources_.EndStep(top, entered);
  if (on_step_end_) on_step_end_(top, entered);
}

PyRef StateWatch::TakeInPlaceOfItems(PyObject* container, PyObject* key) {
  if (const PyRef places = arrays_.PlacesOf(container, key)) {
    return TakingItems(container, places.get());
  }
  return items_.InPlaceOf(container, key);
}

void StateWatch::CameBack(PyObject* result) {
  arrays_.CameBack(result);
  loops_.CameBack(result);
}

PyRef StateWatch::TakeInPlaceOfFormat(PyObject* text, PyObject* value) {
  if (refusals().is_stopped() || !TextSources::ShowsTensors(text, value)) {
    return PyRef();
  }
  return Formatting(text);
}

void StateWatch::ReplaceStore(PyObject** container, PyObject** key,
                              PyObject** value) {
  arrays_.ReplaceStore(container, key, value);
}

void StateWatch::Binary(const char* op, PyObject* a, PyObject* b) {
  if (loops_.Repeat(op, a, b)) return;
  sources_.Binary(op, a, b);
  loops_.Binary(a, b);
  if (arithmetic_.Binary(op, a, b)) return;
  Use(a);
  Use(b);
  if (IsTensor(a) || IsTensor(b)) sizes_.Operate();
  numbers_.Binary(op, a, b);
}

void StateWatch::LookForItem(PyObject* container, PyObject* key) {
  values().UseText(container);
  values().UseText(key);
  items_.Use(container, key);
}

void StateWatch::Contains(PyObject* container, PyObject* item) {
  if (handles_.IsId(item) && PyDict_Check(container)) return;
  Use(item);
  ways_.Find(item);
  loops_.Look(container);
  if (functions_.Contains(container, item)) return;
  // A dict's keys were looked at when it got them.
  if (!PyDict_Check(container)) Inspect(container);
  // No item is read: what would be given in its place is no answer.
  loops_.Look(item);
  sizes_.UseItem(container, item);
  LookForItem(container, item);
}

void StateWatch::Call(PyObject* callable, absl::Span<PyObject* const> args,
                      PyObject* keyword_names) {
  handles_.Call(callable);
  sizes_.Call(callable, args);
  loops_.Call(callable, args);
  ways_.Call(callable, args);
  if (arithmetic_.Call(callable, args, keyword_names)) return;
  if (arrays_.Follow(callable, args, keyword_names)) return;
  if (grown_.Call(callable, args, keyword_names)) return;
  if (!values().empty()) UseOwner(callable, args);
  // Python code gets a text as it is; C code may look at it.
  if (callable != nullptr && !values().empty() &&
      !TextSources::HandsOn(callable)) {
    sources_.Call(callable, args, keyword_names);
    for (PyObject* arg : args) values().UseText(arg);
  }
  if (CallWatch::MayTakeOut(callable, args)) dying_.MayLose();
  calls_.Call(callable, args, keyword_names);
  if (callable == nullptr) return;
  if (PyRef other = FindInPlace(callable)) {
    ground_.step.in_place_of_call = std::move(other);
  }
}

void StateWatch::UseOwner(PyObject* callable,
                          absl::Span<PyObject* const> args) {
  if (callable == nullptr) return;
  PyObject* owner = nullptr;
  if (PyCFunction_Check(callable)) {
    owner = PyCFunction_GET_SELF(callable);
  } else if (Py_TYPE(callable) == &PyMethodDescr_Type && !args.empty()) {
    owner = args[0];
  }
  if (owner != nullptr && PyList_Check(owner)) values().UseText(owner);
}

void StateWatch::Compare(PyObject** first, PyObject** second) {
  if (refusals().is_stopped()) return;
  const bool is_first_known = numbers_.Share(first);
  const bool is_second_known = numbers_.Share(second);
  const bool is_tuple = static_cast<int>(numbers_.ShareTuple(first)) |
                        static_cast<int>(numbers_.ShareTuple(second));
  PyObject *a = *first, *b = *second;
  ways_.Compare(a, b);
  if (Py_TYPE(a) == Py_TYPE(b) &&
      (is_tuple || !(is_first_known && is_second_known))) {
    return Refuse("compares the identity of promoted scalars");
  }
  // Tensors' identities are guarded. Another argument may be the very object
  // that it is compared to in a later call only if that is of its class.
  if (Py_TYPE(a) != Py_TYPE(b)) return;
  identity_.IdentifyConstants(a, b);
  identity_.Identify(a);
  identity_.Identify(b);
}

}  // namespace mica
