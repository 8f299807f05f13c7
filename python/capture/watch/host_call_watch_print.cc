// What a program prints, and what it passes to code in C.

#include "absl/strings/str_cat.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/host_call_watch.h"
#include "python/capture/watch/module_dicts.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/call_with_names.h"
#include "python/interpreter/handing_on.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// Where it prints to is looked up at each hit, as at each call.
void HostCallWatch::Print(PyObject* print, absl::Span<PyObject* const> args,
                          PyObject* keyword_names) {
  static PyObject* stdout_name = PyUnicode_InternFromString("stdout");
  PyObject* sys = DictOfModule("sys");
  if (sys == nullptr || written_.IsWritten(sys, stdout_name))
    return RefuseCall(print);
  const size_t num_positional = args.size() - NumNames(keyword_names);
  Sink sink{.kind = Sink::Kind::kPrint};
  bool takes_keywords = true;
  for (size_t i = num_positional; i < args.size(); ++i) {
    const auto keyword = static_cast<Py_ssize_t>(i - num_positional);
    const std::string name = PyText(PyTuple_GET_ITEM(keyword_names, keyword));
    // Else it raises, and print() itself says what is wrong.
    const bool is_text = args[i] == Py_None || PyUnicode_CheckExact(args[i]);
    takes_keywords &= name == "file" || name == "flush" ||
                      ((name == "sep" || name == "end") && is_text);
    if (name != "file") continue;
    if (!IsConstant(args[i])) sink.target = PyRef::Share(args[i]);
    if (IsConstant(args[i]) || IsOld(args[i])) continue;
    return Refuse(
        absl::StrCat("prints to a ", TypeName(Py_TYPE(args[i])), " of its own"),
        "print it outside the compiled function");
  }
  bool makes_own_text = false;
  for (PyObject* arg : args) {
    const bool is_shown = IsConstant(arg) ||
                          (IsTensor(arg) && IsPlainTensor(arg)) ||
                          arg == sink.target.get() ||
                          (IsOld(arg) && !PlainContainers(arg).empty());
    // What it holds is told when it is printed.
    const bool is_container = PyList_CheckExact(arg) ||
                              PyDict_CheckExact(arg) || PyTuple_CheckExact(arg);
    if (takes_keywords && is_container &&
        (!is_shown || (PyTuple_CheckExact(arg) && values_.HasKnown(arg)))) {
      makes_own_text = true;
      continue;
    }
    if (is_shown) continue;
    if (takes_keywords && HandsOnString(arg)) {
      makes_own_text = true;
      continue;
    }
    return Refuse(absl::StrCat("prints a ", TypeName(Py_TYPE(arg))),
                  "print it outside the compiled function");
  }
  if (makes_own_text) {
    step_.in_place_of_call = FunctionInPython("print_texts");
    step_.annotated = nullptr;
    if (!step_.in_place_of_call) RefuseCall(print);
    return;
  }
  Call(print, args, keyword_names, std::move(sink));
}

Sink HostCallWatch::SinkInC(PyObject* callable,
                            absl::Span<PyObject* const> args) {
  if (!PyCFunction_Check(callable) &&
      Py_TYPE(callable) != &PyMethodDescr_Type) {
    return Sink();
  }
  for (PyObject* arg : args) {
    if (IsTensor(arg) || IsContainer(arg)) return Sink();
  }
  return {.kind = Sink::Kind::kInC};
}

}  // namespace mica
