#include "python/capture/watch/grown_reads.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// What asks for what was there, and what goes on from there; functions of
// mica.grown.
struct Question {
  const char* ask;
  const char* go_on;
  const char* ask_too = nullptr;
};

const Question* FindQuestion(PyObject* callable) {
  static const auto& questions = *new absl::flat_hash_map<PyObject*, Question>{
      {ResolveName("builtins.len").release(), {"length", "give"}},
      // From 3.12 on, floats are added with what was lost in rounding.
      {ResolveName("builtins.sum").release(),
       PY_VERSION_HEX < 0x030c0000
           ? Question{"total", "go_on_adding"}
           : Question{"total_so_far", "go_on_adding_exactly", "lost_so_far"}},
      {ResolveName("builtins.max").release(), {"largest", "go_on_to_largest"}},
      {ResolveName("builtins.min").release(),
       {"smallest", "go_on_to_smallest"}}};
  const auto it = questions.find(callable);
  return it == questions.end() ? nullptr : &it->second;
}

PyRef FunctionOf(const char* name) {
  return FunctionInPython(name, "mica.grown");
}

bool IsList(PyObject* object) { return PyList_CheckExact(object); }

}  // namespace

bool GrownReads::IsAsAdded(const Grown& grown) const {
  const PyRef before = PyRef::Steal(PySequence_List(grown.before.get()));
  const PyRef now = PyRef::Steal(PySequence_List(grown.container));
  if (!before || !now) {
    PyErr_Clear();
    return false;
  }
  std::vector<PyObject*> want;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(before.get()); ++i) {
    want.push_back(PyList_GET_ITEM(before.get(), i));
  }
  for (const PyRef& item : grown.added) want.push_back(item.get());
  const auto size = static_cast<size_t>(PyList_GET_SIZE(now.get()));
  const bool is_of_size =
      want.size() == size ||
      (grown.is_bounded && want.size() > size &&
       static_cast<Py_ssize_t>(size) == BoundOf(grown.container));
  if (!is_of_size) return false;
  return std::equal(want.end() - static_cast<std::ptrdiff_t>(size), want.end(),
                    PySequence_Fast_ITEMS(now.get()));
}

std::optional<GrownReads::Grown> GrownReads::Find(PyObject* container) {
  if (refusal() || container == nullptr || is_in_later_pass() ||
      !(IsList(container) || IsDeque(container)) || IsInput(container) ||
      !IsOld(container)) {
    return std::nullopt;
  }
  Grown grown{.container = container};
  if (containers_.Has(container)) {
    if (!containers_.IsUnread(container)) return std::nullopt;
    grown.before = containers_.changed().at(container);
    for (const ContainerCall& call : containers_.calls()) {
      if (call.container.get() != container) continue;
      const std::string name = CallableName(call.method.get());
      PyObject* argument = call.args.empty() ? nullptr : call.args[0].get();
      if (absl::EndsWith(name, ".append") && argument != nullptr) {
        grown.added.push_back(call.args[0]);
      } else if (absl::EndsWith(name, ".extend") && argument != nullptr &&
                 PyTuple_CheckExact(argument)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(argument); ++i) {
          grown.added.push_back(PyRef::Share(PyTuple_GET_ITEM(argument, i)));
        }
      } else {
        return std::nullopt;
      }
    }
  } else if (written_.IsGrowing(container) && !guards_.HasItems(container)) {
    grown.before = PyRef::Share(container);
  } else {
    return std::nullopt;
  }
  grown.num_before = PyObject_Size(grown.before.get());
  const Py_ssize_t bound = BoundOf(container);
  grown.is_bounded = bound >= 0;
  const bool holds_all =
      !grown.is_bounded || static_cast<Py_ssize_t>(grown.added.size()) <= bound;
  if (grown.num_before < 0 || !holds_all || !IsAsAdded(grown)) {
    return std::nullopt;
  }
  return grown;
}

PyRef GrownReads::Ask(const Grown& grown, const char* function,
                      PyRef argument) {
  const PyRef callable = FunctionOf(function);
  if (!callable || !argument) return PyRef();
  const PyRef recorded = PyRef::Steal(PyObject_CallFunctionObjArgs(
      callable.get(), grown.before.get(), argument.get(), nullptr));
  if (!recorded) PyErr_Clear();
  if (!recorded || recorded.get() == Py_None) return PyRef();
  return draws_.Look(
      callable.get(), {PyRef::Share(grown.container), std::move(argument)},
      recorded, absl::StrCat(function, " of ", PathOf(grown.container)));
}

PyRef GrownReads::AskForItem(const Grown& grown, Py_ssize_t at) {
  PyRef item = Ask(grown, "item", PyRef::Steal(PyLong_FromSsize_t(at)));
  if (!item || values_.Find(item.get()) < 0) return item;
  const PyRef shared = PyRef::Steal(PySequence_GetItem(grown.before.get(), at));
  if (!shared) return PyErr_Clear(), PyRef();
  values_.StandFor(item.get(), shared.get());
  return item;
}

bool GrownReads::Call(PyObject* callable, absl::Span<PyObject* const> args,
                      PyObject* keyword_names) {
  if (callable == nullptr || args.size() != 1 || keyword_names != nullptr) {
    return false;
  }
  const Question* question = FindQuestion(callable);
  if (question == nullptr) return false;
  const std::optional<Grown> grown = Find(args[0]);
  if (!grown.has_value()) return false;
  const PyRef go_on = FunctionOf(question->go_on);
  const PyRef added =
      PyRef::Steal(PyTuple_New(static_cast<Py_ssize_t>(grown->added.size())));
  bool is_float = false;
  for (size_t i = 0; added && i < grown->added.size(); ++i) {
    PyObject* item = grown->added[i].get();
    is_float |= i == 0 && PyFloat_CheckExact(item);
    PyTuple_SET_ITEM(added.get(), static_cast<Py_ssize_t>(i),
                     PyRef::Share(item).release());
  }
  if (!go_on || !added) return false;
  PyRef count = PyRef::Steal(PyLong_FromSize_t(grown->added.size()));
  std::vector<PyRef> from;  // What to go on from, and by what.
  for (const char* ask : {question->ask, question->ask_too}) {
    if (ask == nullptr) continue;
    from.push_back(Ask(*grown, ask,
                       PyRef::Steal(PyTuple_Pack(
                           2, count.get(), is_float ? Py_True : Py_False))));
    if (refusal()) return true;
    if (!from.back()) return false;
  }
  from.push_back(added);
  std::vector<PyObject*> arguments;
  for (const PyRef& argument : from) arguments.push_back(argument.get());
  step_.in_place_of_call = PyRef::Steal(PyObject_Vectorcall(
      go_on.get(), arguments.data(), arguments.size(), nullptr));
  if (!step_.in_place_of_call) PyErr_Clear();
  return static_cast<bool>(step_.in_place_of_call);
}

bool GrownReads::UseIndex(const Grown& grown, Py_ssize_t index) {
  const auto num_added = static_cast<Py_ssize_t>(grown.added.size());
  const Py_ssize_t size = PyObject_Size(grown.container);
  if (index < -size || index >= size) return false;   // Raises.
  if (index < 0 && -index <= num_added) return true;  // The run's own.
  if (grown.is_bounded || index >= grown.num_before) return false;
  const Py_ssize_t at = index < 0 ? index + num_added : index;
  PyRef item = AskForItem(grown, at);
  if (refusal()) return true;
  if (!item) return false;
  if (values_.Find(item.get()) < 0) {
    Refuse(absl::StrCat("reads what isn't a number of a list, ",
                        PathOf(grown.container), ", that it adds to"));
    return true;
  }
  items_.push_back(std::move(item));
  gives_item_ = true;
  return true;
}

bool GrownReads::UseTail(const Grown& grown, Py_ssize_t count) {
  const auto num_added = static_cast<Py_ssize_t>(grown.added.size());
  if (count <= num_added) return true;
  const Py_ssize_t most = count - num_added;
  const Py_ssize_t num_old = std::min(most, grown.num_before);
  if (num_old > kMaxListedNumbers) return false;
  // How many there are has to stay.
  if (!Ask(grown, "length_of_tail", PyRef::Steal(PyLong_FromSsize_t(most)))) {
    return static_cast<bool>(refusal());
  }
  for (Py_ssize_t i = 0; i < num_old; ++i) {
    PyRef item = AskForItem(grown, i - num_old);
    if (refusal()) return true;
    if (!item || values_.Find(item.get()) < 0) {
      Refuse(absl::StrCat("reads what isn't a number of a list, ",
                          PathOf(grown.container), ", that it adds to"));
      return true;
    }
    items_.push_back(std::move(item));
  }
  return true;
}

bool GrownReads::UseItem(PyObject* container, PyObject* key) {
  if (!PyLong_CheckExact(key) && !PySlice_Check(key)) return false;
  const std::optional<Grown> grown = Find(container);
  if (!grown.has_value() || values_.HasKnown(key)) return false;
  if (PyLong_CheckExact(key)) {
    const Py_ssize_t index = PyLong_AsSsize_t(key);
    if (index == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    return UseIndex(*grown, index);
  }
  // The last ones of a list.
  const auto* slice = reinterpret_cast<PySliceObject*>(key);
  if (!IsList(container) || slice->stop != Py_None || slice->step != Py_None ||
      !PyLong_CheckExact(slice->start)) {
    return false;
  }
  const Py_ssize_t start = PyLong_AsSsize_t(slice->start);
  if (start >= 0 || start < -PY_SSIZE_T_MAX) {
    PyErr_Clear();
    return false;
  }
  return UseTail(*grown, -start);
}

bool GrownReads::TestTruth(PyObject* container) {
  const std::optional<Grown> grown = Find(container);
  if (!grown.has_value()) return false;
  if (!grown->added.empty()) return true;
  return static_cast<bool>(Ask(*grown, "is_empty", PyRef::Share(Py_None))) ||
         static_cast<bool>(refusal());
}

void GrownReads::EndStep(PyObject** top) {
  if (items_.empty()) return;
  const std::vector<PyRef> items = std::exchange(items_, {});
  const bool is_item = std::exchange(gives_item_, false);
  if (top == nullptr || *top == nullptr) return;
  if (is_item) {
    Py_SETREF(*top, PyRef(items[0]).release());
    return;
  }
  if (!PyList_CheckExact(*top)) return;
  const auto size = static_cast<size_t>(PyList_GET_SIZE(*top));
  for (size_t i = 0; i < std::min(items.size(), size); ++i) {
    PyList_SetItem(*top, static_cast<Py_ssize_t>(i), PyRef(items[i]).release());
  }
}

}  // namespace mica
