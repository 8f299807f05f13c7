#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/state_watch.h"

namespace mica {
namespace {

// The Program's operator for what Python's own does with two numbers, or null.
const HostOp* OperatorOf(const std::string& word, PyObject* a, PyObject* b) {
  if (!NumberOf(a).has_value() || !NumberOf(b).has_value()) return nullptr;
  const bool gives_int = PyLong_CheckExact(a) && PyLong_CheckExact(b);
  const bool is_float = word == "div" || !gives_int;
  return FindHostOp((is_float ? "mica.scalar_" : "mica.int_") + word);
}

// A dict's keys, and another container's items; borrowed.
std::vector<PyObject*> ItemsOrKeys(PyObject* container) {
  std::vector<PyObject*> items;
  PyObject* item = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t hash = 0;
  if (PyDict_Check(container)) {
    PyObject* value = nullptr;
    while (PyDict_Next(container, &position, &item, &value)) {
      items.push_back(item);
    }
  } else if (PyAnySet_Check(container)) {
    while (_PySet_NextEntry(container, &position, &item, &hash)) {
      items.push_back(item);
    }
  } else {
    PyObject** first = PySequence_Fast_ITEMS(container);
    items.assign(first, first + PySequence_Fast_GET_SIZE(container));
  }
  return items;
}

// True for a container of few numbers, and of what no number is equal to,
// whose own class says what it contains.
bool HoldsFewNumbers(PyObject* container) {
  constexpr size_t kMaxNumbers = 64;
  PyTypeObject* base = PyDict_Check(container)        ? &PyDict_Type
                       : PyList_Check(container)      ? &PyList_Type
                       : PyTuple_Check(container)     ? &PyTuple_Type
                       : PySet_Check(container)       ? &PySet_Type
                       : PyFrozenSet_Check(container) ? &PyFrozenSet_Type
                                                      : nullptr;
  static PyObject* contains = Interned("__contains__");
  if (base == nullptr || _PyType_Lookup(Py_TYPE(container), contains) !=
                             _PyType_Lookup(base, contains)) {
    return false;
  }
  const std::vector<PyObject*> items = ItemsOrKeys(container);
  return items.size() <= kMaxNumbers &&
         absl::c_all_of(items, [](PyObject* item) {
           return NumberOf(item).has_value() || item == Py_None ||
                  PyUnicode_CheckExact(item);
         });
}

// True if an operator of Python's only moves what `a` holds: it joins two
// containers, repeats one, or is Python code of the class of one of both.
bool MovesItems(PyObject* a, PyObject* b) {
  const auto is_plain_instance = [](PyObject* object) {
    return SolidBase(Py_TYPE(object)) == &PyBaseObject_Type;
  };
  if (is_plain_instance(a) || is_plain_instance(b)) return true;
  if (PyList_Check(a)) return PyList_Check(b) || PyLong_CheckExact(b);
  if (PyTuple_Check(a)) return PyTuple_Check(b) || PyLong_CheckExact(b);
  if (PyDict_Check(a)) return PyDict_Check(b);
  return PyAnySet_Check(a) && PyAnySet_Check(b);
}

// True for what may be set as an attribute of the class `type`, or as an item,
// and is left there as it is.
bool KeepsAttribute(PyTypeObject* type, PyObject* name) {
  static PyObject* set_attribute = Interned("__setattr__");
  PyObject* setter = _PyType_Lookup(type, set_attribute);
  if (setter != nullptr && PyFunction_Check(setter)) return true;  // Followed.
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_set == nullptr) {
    return type->tp_setattro == PyObject_GenericSetAttr;
  }
  if (Py_TYPE(descriptor) == &PyMemberDescr_Type) return IsPythonClass(type);
  if (Py_TYPE(descriptor) != &PyProperty_Type) {
    return IsPythonClass(Py_TYPE(descriptor));  // Its __set__ is followed.
  }
  const PyRef function =
      PyRef::Steal(PyObject_GetAttrString(descriptor, "fset"));
  if (!function) PyErr_Clear();
  return function && PyFunction_Check(function.get());
}

bool KeepsItem(PyObject* container) {
  static PyObject* set_item = Interned("__setitem__");
  PyObject* setter = _PyType_Lookup(Py_TYPE(container), set_item);
  if (setter != nullptr && PyFunction_Check(setter)) return true;  // Followed.
  return PyList_Check(container) || PyDict_Check(container) ||
         (DequeType() != nullptr && PyObject_TypeCheck(container, DequeType()));
}

}  // namespace

void StateWatch::StoreAttribute(PyObject* owner, PyObject* name,
                                PyObject* value) {
  if (!KeepsAttribute(Py_TYPE(owner), name)) values_.MarkExactDeep(value);
}

void StateWatch::StoreItem(PyObject* container, PyObject* value) {
  if (IsTensor(container) && values_.Find(value) >= 0) {
    PassNumber(value);
    passed_.back().is_stored = true;
  } else if (!KeepsItem(container)) {
    values_.MarkExactDeep(value);
  }
}

void StateWatch::AddItem(PyObject* dict, PyObject* key, GuardNote note) {
  if (varying_ != nullptr && varying_->HasItem(dict, key)) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    const std::optional<double> known =
        value == nullptr ? std::nullopt : NumberOf(value);
    // Which object a NaN is tells whether it is in a list.
    if (known.has_value() && !std::isnan(*known)) {
      if (values_.HasItem(dict, key)) return;
      // It is followed by its identity: no other place may hold this object.
      const PyRef original = PyRef::Share(value);
      const PyRef number = NewNumber(value);
      if (!number || PyDict_SetItem(dict, key, number.get()) != 0) {
        return PyErr_Clear();
      }
      return values_.AddItem(number.get(), original.get(), dict, key,
                             std::move(note));
    }
    PyErr_Clear();
  }
  guards_.AddItem(dict, key, note);
}

void StateWatch::EndStep(PyObject** top, bool entered) {
  PyObject* result = top == nullptr ? nullptr : *top;
  if (std::exchange(makes_host_call_, false)) {
    TakeNumbersBack();
    if (on_host_call_) on_host_call_(/*begins=*/false);
    if (annotated_ != nullptr && result != Py_None) {
      Refuse("uses what a call into the world outside returns",
             "annotate only what returns None so");
    }
  }
  if (std::exchange(is_drawing_, false)) EndDraw(top);
  if (refusal_) return;
  if (gives_address_ && result != nullptr) values_.AddAddress(result);
  if (makes_constant_ && result != nullptr) CallGave(result);
  if (makes_array_ && result != nullptr && IsArray(result)) AddNewArray(result);
  // Items of what shows an array, such as its `flat`, too.
  if (makes_array_ || is_making_tensor_) CheckSharedMemory();
  if (takes_from_array_ && result != nullptr) {
    if (IsArray(result)) {
      AddNewArray(result);
    } else if (!PyObject_IS_GC(result)) {
      young_.insert(result);
    }
    for (Py_ssize_t i = 0;
         PyTuple_CheckExact(result) && i < PyTuple_GET_SIZE(result); ++i) {
      PyObject* item = PyTuple_GET_ITEM(result, i);
      if (IsArray(item)) AddNewArray(item);
    }
  }
  if (makes_new_ && result != nullptr && young_.insert(result).second) {
    pins_.push_back(PyRef::Share(result));
  }
  if (makes_iterator_ && result != nullptr && !PyObject_IS_GC(result) &&
      PyIter_Check(result)) {
    young_.insert(result);  // Of a range.
  }
  if (host_op_ != nullptr) {
    std::vector<PyObject*> operands;
    for (const PyRef& operand : host_operands_) {
      operands.push_back(operand.get());
    }
    const PyRef own = result != nullptr && NumberOf(result).has_value()
                          ? NewNumber(result)
                          : PyRef();
    if (own && values_.AddOp(own.get(), *host_op_, operands)) {
      Py_SETREF(*top, PyRef(own).release());
    } else {
      for (PyObject* operand : operands) values_.MarkExact(operand);
    }
  }
  if (on_step_end_) on_step_end_(top, entered);
}

void StateWatch::CameBack(PyObject* result) {
  if (refusal_ || !IsArray(result) || Py_REFCNT(result) != 1) return;
  // Nobody but the code that asked for it holds the array: it is as good as
  // new, unless it shows another's memory.
  const PyRef base = PyRef::Steal(PyObject_GetAttrString(result, "base"));
  if (!base) return PyErr_Clear();
  if (base.get() == Py_None) AddNewArray(result);
}

void StateWatch::TouchNumpyContext() {
  static PyObject* variable =
      ResolveName("numpy._core.umath._extobj_contextvar").release();
  if (variable == nullptr || !PyContextVar_CheckExact(variable)) return;
  guards_.AddContextVar(variable, NoteOf("numpy.geterr()"));
}

void StateWatch::Binary(const char* op, PyObject* a, PyObject* b) {
  makes_array_ = IsArray(a) || IsArray(b);
  for (PyObject* operand : {a, b}) {
    CheckOperand(operand);
    if (absl::StartsWith(Py_TYPE(operand)->tp_name, "numpy.")) {
      TouchNumpyContext();
    }
  }
  const bool a_known = values_.Find(a) >= 0;
  const bool b_known = values_.Find(b) >= 0;
  if ((a_known || b_known) && op != nullptr) {
    if (const HostOp* found = OperatorOf(op, a, b))
      return Compute(found, {a, b});
  }
  for (const auto& [known, number, other] :
       {std::make_tuple(a_known, a, b), std::make_tuple(b_known, b, a)}) {
    if (known && IsTensor(other)) {
      PassNumber(number, /*is_operand=*/true);
      continue;
    }
    // Numpy takes the items of a list, bytes(...) % (...) makes text of them.
    if (!MovesItems(number, other)) values_.MarkExactDeep(number);
    Touch(number);
  }
}

void StateWatch::CompareNumbers(Order order, PyObject* a, PyObject* b) {
  if (refusal_) return;
  const bool a_known = values_.Find(a) >= 0, b_known = values_.Find(b) >= 0;
  if (IsTensor(a) || IsTensor(b)) {
    a_known ? PassNumber(a, /*is_operand=*/true) : Touch(a);
    b_known ? PassNumber(b, /*is_operand=*/true) : Touch(b);
    return;
  }
  if (a_known || b_known) {
    const bool is_swapped =
        order == Order::kGreater || order == Order::kGreaterEqual;
    const char* op = "mica.scalar_eq";
    if (order == Order::kLess || order == Order::kGreater) {
      op = "mica.scalar_lt";
    } else if (order == Order::kLessEqual || order == Order::kGreaterEqual) {
      op = "mica.scalar_le";
    }
    if (values_.AddComparison(op, is_swapped ? b : a, is_swapped ? a : b,
                              CurrentUserLine())) {
      return;
    }
  }
  for (PyObject* operand : {a, b}) {
    CheckOperand(operand);
    Inspect(operand);
    Touch(operand);
  }
}

void StateWatch::TestTruth(PyObject* object) {
  if (refusal_) return;
  static PyObject* zero = PyFloat_FromDouble(0);
  if (values_.Find(object) < 0) return Touch(object);
  CompareNumbers(Order::kEqual, object, zero);
}

bool StateWatch::Share(PyObject** number) {
  const HostValues::Id id = values_.Find(*number);
  if (id < 0) return true;
  PyRef shared = SharedInt(*number);
  const bool is_shared = static_cast<bool>(shared);
  if (is_shared) values_.MarkExactId(id);
  if (!is_shared) shared = PyRef::Share(values_.original(id));
  if (shared) Py_SETREF(*number, shared.release());
  return is_shared;
}

bool StateWatch::ShareNumbers(absl::Span<PyObject* const> args) {
  bool all = true;
  for (PyObject* const& arg : args) {
    // They are in the stack of the step that calls.
    if (arg != nullptr) all &= Share(const_cast<PyObject**>(&arg));
  }
  return all;
}

bool StateWatch::AskOfNumbers(PyObject* function,
                              absl::Span<PyObject* const> args) {
  const auto is_known = [this](PyObject* arg) {
    return arg != nullptr && values_.Find(arg) >= 0;
  };
  const auto is_number = [](PyObject* arg) {
    return arg != nullptr && NumberOf(arg).has_value();
  };
  const auto holds_known = [&](PyObject* arg) {
    return is_known(arg) || (arg != nullptr && values_.HasKnown(arg));
  };
  if (values_.empty() || !absl::c_any_of(args, holds_known)) return false;
  const std::string name = CallableName(function);
  if (AskForPlace(name, args)) return true;
  if (name == "builtins.sum" && AddUp(args)) return true;
  if (!absl::c_all_of(args, is_number)) return false;
  if (Round(name, args)) return true;
  const bool is_max = name == "builtins.max";
  if (args.size() >= 2 && (is_max || name == "builtins.min")) {
    // Another one only if it is further than all before: the very object.
    PyObject* best = args[0];
    for (PyObject* arg : args.subspan(1)) {
      CompareNumbers(is_max ? Order::kGreater : Order::kLess, arg, best);
      const double number = *NumberOf(arg), furthest = *NumberOf(best);
      if (is_max ? number > furthest : number < furthest) best = arg;
    }
    return true;
  }
  if (args.size() != 1 || !(name == "math.isnan" || name == "math.isinf" ||
                            name == "math.isfinite")) {
    return false;
  }
  static PyObject* infinity = PyFloat_FromDouble(HUGE_VAL);
  static PyObject* minus_infinity = PyFloat_FromDouble(-HUGE_VAL);
  if (name != "math.isinf") CompareNumbers(Order::kEqual, args[0], args[0]);
  if (name == "math.isnan") return true;
  CompareNumbers(Order::kEqual, args[0], infinity);
  CompareNumbers(Order::kEqual, args[0], minus_infinity);
  return true;
}

bool StateWatch::AddUp(absl::Span<PyObject* const> args) {
  static PyObject* zero = PyLong_FromLong(0);
  if (args.size() != 1 ||
      !(PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])) ||
      !HoldsFewNumbers(args[0])) {
    return false;
  }
  const std::vector<PyObject*> numbers = ItemsOrKeys(args[0]);
  for (PyObject* number : numbers) {
    // From 3.12 on, floats are added with what was lost in rounding.
    if (!NumberOf(number).has_value() ||
        (PY_VERSION_HEX >= 0x030c0000 && PyFloat_CheckExact(number))) {
      return false;
    }
  }
  if (numbers.empty()) return false;
  PyRef sum = PyRef::Share(zero);
  for (PyObject* number : absl::MakeSpan(numbers).first(numbers.size() - 1)) {
    const PyRef next = PyRef::Steal(PyNumber_Add(sum.get(), number));
    PyRef own = next && NumberOf(next.get()).has_value() ? NewNumber(next.get())
                                                         : PyRef();
    if (!own) return PyErr_Clear(), false;
    const HostOp* add = OperatorOf("add", sum.get(), number);
    const bool is_known =
        values_.Find(sum.get()) >= 0 || values_.Find(number) >= 0;
    if (is_known && !values_.AddOp(own.get(), *add, {sum.get(), number})) {
      return false;
    }
    sum = std::move(own);
  }
  Touch(args[0]);
  Compute(OperatorOf("add", sum.get(), numbers.back()),
          {sum.get(), numbers.back()});
  return true;
}

bool StateWatch::Round(const std::string& function,
                       absl::Span<PyObject* const> args) {
  static const auto& words = *new absl::flat_hash_map<std::string, std::string>{
      {"builtins.abs", "abs"}, {"builtins.round", "round"},
      {"math.ceil", "ceil"},   {"math.floor", "floor"},
      {"math.trunc", "trunc"}, {"builtins.int", "trunc"}};
  const auto word = words.find(function);
  if (word == words.end() || args.size() != 1) return false;
  if (PyFloat_CheckExact(args[0])) {
    const bool gives_float = word->second == "abs";
    Compute(
        FindHostOp((gives_float ? "mica.scalar_" : "mica.int_") + word->second),
        {args[0]});
  } else if (word->second == "abs") {
    Compute(FindHostOp("mica.int_abs"), {args[0]});
  } else {  // It stays what it is.
    static PyObject* zero = PyLong_FromLong(0);
    Compute(FindHostOp("mica.int_add"), {args[0], zero});
  }
  return true;
}

void StateWatch::Contains(PyObject* container, PyObject* item) {
  LookFor(item);
  if (refusal_) return;
  if (values_.Find(item) < 0 || written_dicts_.contains(container) ||
      !HoldsFewNumbers(container)) {
    return StreamListener::Contains(container, item);
  }
  Touch(container);
  // A NaN would be found by its identity.
  CompareNumbers(Order::kEqual, item, item);
  for (PyObject* other : ItemsOrKeys(container)) {
    if (!NumberOf(other).has_value()) continue;
    CompareNumbers(Order::kEqual, item, other);
    const bool is_list = PyList_Check(container) || PyTuple_Check(container);
    if (is_list && *NumberOf(item) == *NumberOf(other)) break;
  }
}

bool StateWatch::AskForPlace(const std::string& function,
                             absl::Span<PyObject* const> args) {
  const bool is_right = function == "_bisect.bisect_right";
  if ((!is_right && function != "_bisect.bisect_left") || args.size() != 2 ||
      !NumberOf(args[1]).has_value() || !PyList_CheckExact(args[0]) ||
      !HoldsFewNumbers(args[0])) {
    return false;
  }
  const std::vector<PyObject*> others = ItemsOrKeys(args[0]);
  if (!absl::c_all_of(others, [](PyObject* other) {
        return NumberOf(other).has_value();
      })) {
    return false;
  }
  Touch(args[0]);
  for (PyObject* other : others) {
    CompareNumbers(Order::kLess, is_right ? args[1] : other,
                   is_right ? other : args[1]);
  }
  return true;
}

void StateWatch::Negate(PyObject* number) {
  CheckOperand(number);
  if (values_.Find(number) < 0) return Touch(number);
  if (PyFloat_CheckExact(number)) {
    return Compute(FindHostOp("mica.scalar_neg"), {number});
  }
  static PyObject* zero = PyLong_FromLong(0);
  Compute(FindHostOp("mica.int_sub"), {zero, number});
}

void StateWatch::Compute(const HostOp* op,
                         absl::Span<PyObject* const> operands) {
  host_op_ = op;
  for (PyObject* operand : operands) {
    host_operands_.push_back(PyRef::Share(operand));
  }
}

void StateWatch::Store(PyObject* owner, PyObject* value) {
  stored_ = value;
  if (refusal_ || values_.empty() || !values_.HasKnown(value)) return;
  // What is left in a place of the state is made again from the run's numbers.
  if (owner == nullptr || PyCell_Check(owner) || PyDict_CheckExact(owner) ||
      PyList_CheckExact(owner)) {
    return;
  }
  const bool is_plain = IsPythonClass(Py_TYPE(owner)) ||
                        Py_TYPE(owner)->tp_setattro == PyObject_GenericSetAttr;
  const bool is_instance =
      is_plain && InstanceDict(owner) != nullptr && !IsTensor(owner);
  if (is_instance && !inputs_.contains(owner)) return;
  if (IsOld(owner) || inputs_.contains(owner)) values_.MarkExactDeep(value);
}

void StateWatch::PassNumber(PyObject* number, bool is_operand) {
  if (const HostValues::Id id = values_.Find(number); id >= 0) {
    passed_.push_back({.items = {{.id = id, .constant = values_.value(id)}},
                       .is_int = values_.is_int(id),
                       .is_operand = is_operand});
  }
}

void StateWatch::PassNumbers(PyObject* items) {
  PassedNumbers passed{.is_list = true};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    TapeHostOperand& number = passed.items.emplace_back();
    number.id = values_.Find(item);
    const std::optional<double> value = NumberOf(item);
    // A list of sizes or dims has ints.
    if (!value.has_value() || (number.id >= 0 && values_.is_int(number.id))) {
      return TouchObject(items, kDeepDepth);
    }
    number.constant = *value;
  }
  passed_.push_back(std::move(passed));
}

}  // namespace mica
