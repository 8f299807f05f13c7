#include "python/capture/watch/number_functions.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/object_kinds.h"

namespace mica {
namespace {

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

struct NumpyOp {
  const HostOp* op = nullptr;
  size_t num_args = 1;
};

// Functions of numpy's that give a float64.
const absl::flat_hash_map<PyObject*, NumpyOp>& NumpyOps() {
  static const auto& ops = *[] {
    auto* known = new absl::flat_hash_map<PyObject*, NumpyOp>;
    const auto add = [known](const char* name, absl::string_view word,
                             size_t num_args) {
      const HostOp* op = FindHostOp(absl::StrCat("mica.scalar_", word));
      (*known)[ResolveName(absl::StrCat("numpy.", name)).release()] = {
          op, num_args};
    };
    for (const char* name :
         {"cos", "exp", "log", "log10", "log2", "sin", "sqrt", "tanh"}) {
      add(name, name, 1);
    }
    add("absolute", "abs", 1);
    add("negative", "neg", 1);
    add("add", "add", 2);
    add("subtract", "sub", 2);
    add("multiply", "mul", 2);
    add("divide", "div", 2);
    add("power", "pow", 2);
    known->erase(nullptr);
    return known;
  }();
  return ops;
}

}  // namespace

bool NumberFunctions::Ask(PyObject* function,
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
  if (Round(name, args) || RaiseToPower(name, args) ||
      TakeLogarithm(name, args)) {
    return true;
  }
  return AskForExtreme(name, args) || AskForKind(name, args);
}

bool NumberFunctions::AskNumpy(PyObject* function,
                               absl::Span<PyObject* const> args) {
  static const auto& names = *new absl::flat_hash_map<PyObject*, std::string>{
      {ResolveName("numpy.isnan").release(), "math.isnan"},
      {ResolveName("numpy.isinf").release(), "math.isinf"},
      {ResolveName("numpy.isfinite").release(), "math.isfinite"}};
  const auto name = names.find(function);
  if (name != names.end()) {
    return args.size() == 1 && values_.Find(args[0]) >= 0 &&
           AskForKind(name->second, args);
  }
  bool is_any = false;
  for (PyObject* arg : args) {
    if (arg == nullptr || !ScalarOf(arg).has_value()) return false;
    const HostValues::Id id = values_.Find(arg);
    if (id >= 0 && values_.IsSize(id)) return false;
    is_any |= id >= 0;
  }
  const auto op = is_any ? NumpyOps().find(function) : NumpyOps().end();
  if (op == NumpyOps().end() || args.size() != op->second.num_args) {
    return false;
  }
  numbers_.Compute(op->second.op, args);
  return true;
}

bool NumberFunctions::RaiseToPower(const std::string& function,
                                   absl::Span<PyObject* const> args) {
  if (args.size() != 2) return false;
  const HostOp* op = nullptr;
  if (function == "math.pow") op = FindHostOp("mica.scalar_pow");
  if (function == "builtins.pow") op = OperatorOf("pow", args[0], args[1]);
  if (op == nullptr) return false;
  numbers_.Compute(op, args);
  return true;
}

bool NumberFunctions::TakeLogarithm(const std::string& function,
                                    absl::Span<PyObject* const> args) {
  if (function != "math.log" || args.size() != 2 ||
      values_.Find(args[1]) >= 0) {
    return false;
  }
  const HostOp* log = FindHostOp("mica.scalar_log");
  double number = 0, base = 0;
  if (log->compute(*NumberOf(args[0]), 0, &number) != nullptr ||
      log->compute(*NumberOf(args[1]), 0, &base) != nullptr) {
    return false;
  }
  const PyRef of_number = PyRef::Steal(PyFloat_FromDouble(number));
  const PyRef of_base = PyRef::Steal(PyFloat_FromDouble(base));
  const PyRef own = of_number ? NewNumber(of_number.get()) : PyRef();
  if (!own || !of_base) return PyErr_Clear(), false;
  if (!values_.AddOp(own.get(), *log, {args[0]})) return false;
  numbers_.Compute(FindHostOp("mica.scalar_div"), {own.get(), of_base.get()});
  return true;
}

bool NumberFunctions::AskForExtreme(const std::string& function,
                                    absl::Span<PyObject* const> args) {
  const bool is_max = function == "builtins.max";
  if (args.size() < 2 || !(is_max || function == "builtins.min")) return false;
  if (FindExtreme(FindHostOp(is_max ? "mica.scalar_max" : "mica.scalar_min"),
                  args) ||
      FindWholeExtreme(FindHostOp(is_max ? "mica.int_max" : "mica.int_min"),
                       args)) {
    return true;
  }
  // Another one only if it is further than all before: the very object.
  PyObject* best = args[0];
  for (PyObject* arg : args.subspan(1)) {
    numbers_.Compare(is_max ? Order::kGreater : Order::kLess, arg, best);
    const double number = *NumberOf(arg), furthest = *NumberOf(best);
    if (is_max ? number > furthest : number < furthest) best = arg;
  }
  return true;
}

bool NumberFunctions::FindExtreme(const HostOp* op,
                                  absl::Span<PyObject* const> args) {
  // Of an int and a float, which of them it is decides what kind it is of.
  // Where others have one, too, who asks could see which of them it is.
  const auto may_vary = [this](PyObject* arg) {
    return PyFloat_CheckExact(arg) &&
           (values_.Find(arg) < 0 || values_.IsTemporary(arg));
  };
  if (!absl::c_all_of(args, may_vary)) return false;
  return FoldExtreme(op, args);
}

bool NumberFunctions::FindWholeExtreme(const HostOp* op,
                                       absl::Span<PyObject* const> args) {
  // Of constants only those of which there is one object.
  const auto may_vary = [this](PyObject* arg) {
    return PyLong_CheckExact(arg) &&
           (values_.Find(arg) >= 0 || SharedInt(arg).get() == arg);
  };
  if (!absl::c_all_of(args, may_vary)) return false;
  return FoldExtreme(op, args);
}

bool NumberFunctions::FoldExtreme(const HostOp* op,
                                  absl::Span<PyObject* const> args) {
  PyRef best = PyRef::Share(args[0]);
  for (PyObject* arg : args.subspan(1, args.size() - 2)) {
    double number = 0;
    if (op->compute(*NumberOf(best.get()), *NumberOf(arg), &number) !=
            nullptr ||
        !Fold(op, arg, MakeNumber(Py_TYPE(arg), number), &best)) {
      return false;
    }
  }
  if (values_.Find(best.get()) < 0 && values_.Find(args.back()) < 0) {
    return false;
  }
  numbers_.Compute(op, {best.get(), args.back()});
  return true;
}

bool NumberFunctions::AskForKind(const std::string& function,
                                 absl::Span<PyObject* const> args) {
  const bool is_nan = function == "math.isnan";
  const bool is_infinite = function == "math.isinf";
  if (args.size() != 1 ||
      !(is_nan || is_infinite || function == "math.isfinite")) {
    return false;
  }
  static PyObject* infinity = PyFloat_FromDouble(HUGE_VAL);
  static PyObject* minus_infinity = PyFloat_FromDouble(-HUGE_VAL);
  if (!is_infinite) numbers_.Compare(Order::kEqual, args[0], args[0]);
  if (is_nan) return true;
  numbers_.Compare(Order::kEqual, args[0], infinity);
  numbers_.Compare(Order::kEqual, args[0], minus_infinity);
  return true;
}

bool NumberFunctions::Fold(const HostOp* op, PyObject* number,
                           const PyRef& result, PyRef* total) {
  PyRef own = result && NumberOf(result.get()).has_value()
                  ? NewNumber(result.get())
                  : PyRef();
  if (!own) return PyErr_Clear(), false;
  const bool is_known =
      values_.Find(total->get()) >= 0 || values_.Find(number) >= 0;
  if (is_known && !values_.AddOp(own.get(), *op, {total->get(), number})) {
    return false;
  }
  *total = std::move(own);
  return true;
}

bool NumberFunctions::AddUp(absl::Span<PyObject* const> args) {
  static PyObject* zero = PyLong_FromLong(0);
  if (args.size() != 1 ||
      !(PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])) ||
      !HoldsFewNumbers(args[0])) {
    return false;
  }
  const std::vector<PyObject*> numbers = ItemsOrKeys(args[0]);
  for (PyObject* number : numbers) {
    // From 3.12 on, floats are added in Python: in_python.py.
    if (!NumberOf(number).has_value() ||
        (PY_VERSION_HEX >= 0x030c0000 && PyFloat_CheckExact(number))) {
      return false;
    }
  }
  if (numbers.empty()) return false;
  PyRef sum = PyRef::Share(zero);
  for (PyObject* number : absl::MakeSpan(numbers).first(numbers.size() - 1)) {
    if (!Fold(OperatorOf("add", sum.get(), number), number,
              PyRef::Steal(PyNumber_Add(sum.get(), number)), &sum)) {
      return false;
    }
  }
  objects_.Touch(args[0]);
  numbers_.Compute(OperatorOf("add", sum.get(), numbers.back()),
                   {sum.get(), numbers.back()});
  return true;
}

bool NumberFunctions::Round(const std::string& function,
                            absl::Span<PyObject* const> args) {
  static const auto& words = *new absl::flat_hash_map<std::string, std::string>{
      {"builtins.abs", "abs"}, {"builtins.round", "round"},
      {"math.ceil", "ceil"},   {"math.floor", "floor"},
      {"math.trunc", "trunc"}, {"builtins.int", "trunc"}};
  const auto word = words.find(function);
  if (word != words.end() && word->second == "round" && args.size() == 2) {
    return RoundTo(args[0], args[1]);
  }
  if (word == words.end() || args.size() != 1) return false;
  if (PyFloat_CheckExact(args[0])) {
    const bool gives_float = word->second == "abs";
    numbers_.Compute(
        FindHostOp((gives_float ? "mica.scalar_" : "mica.int_") + word->second),
        {args[0]});
  } else if (word->second == "abs") {
    numbers_.Compute(FindHostOp("mica.int_abs"), {args[0]});
  } else {  // It stays what it is.
    static PyObject* zero = PyLong_FromLong(0);
    numbers_.Compute(FindHostOp("mica.int_add"), {args[0], zero});
  }
  return true;
}

bool NumberFunctions::RoundTo(PyObject* number, PyObject* places) {
  if (!PyFloat_CheckExact(number) || !PyLong_CheckExact(places) ||
      values_.Find(places) >= 0) {
    return false;
  }
  numbers_.Compute(FindHostOp("mica.scalar_round"), {number, places});
  return true;
}

bool NumberFunctions::Contains(PyObject* container, PyObject* item) {
  identity_.LookFor(item);
  if (refusal()) return true;
  if (values_.Find(item) < 0 || written_.HasWritten(container) ||
      !HoldsFewNumbers(container)) {
    return false;
  }
  objects_.Touch(container);
  // A NaN would be found by its identity.
  numbers_.Compare(Order::kEqual, item, item);
  for (PyObject* other : ItemsOrKeys(container)) {
    if (!NumberOf(other).has_value()) continue;
    numbers_.Compare(Order::kEqual, item, other);
    const bool is_list = PyList_Check(container) || PyTuple_Check(container);
    if (is_list && *NumberOf(item) == *NumberOf(other)) break;
  }
  return true;
}

bool NumberFunctions::AskForPlace(const std::string& function,
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
  objects_.Touch(args[0]);
  for (PyObject* other : others) {
    numbers_.Compare(Order::kLess, is_right ? args[1] : other,
                     is_right ? other : args[1]);
  }
  return true;
}

}  // namespace mica
