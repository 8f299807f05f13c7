#include "python/capture/watch/annotated_calls.h"

#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool AnnotatedCalls::CheckArguments(const CallAnnotation& known,
                                    PyObject* callable,
                                    absl::Span<PyObject* const> args) {
  for (const int index : known.read) {
    if (index < 0 || index >= static_cast<int>(args.size())) continue;
    if (!IsTensor(args[index]) || tensors_.ReadNumbers(args[index])) continue;
    Refuse(absl::StrCat("calls ", CallableName(callable),
                        ", which reads a large tensor's values"),
           "pass it the few numbers that it needs");
    return false;
  }
  for (const int index : known.changed) {
    if (index < 0 || index >= static_cast<int>(args.size())) continue;
    if (!IsTensor(args[index]) && !IsArray(args[index])) continue;
    Refuse(absl::StrCat("calls ", CallableName(callable),
                        ", which writes a tensor's memory past torch"),
           "write it by torch's operators, or outside the compiled "
           "function");
    return false;
  }
  return true;
}

void AnnotatedCalls::Call(const CallAnnotation& known, PyObject* callable,
                          absl::Span<PyObject* const> args,
                          PyObject* keyword_names) {
  if (known.kind == CallKind::kEndsGraph) {
    return Refuse(known.reason,
                  "call it outside the compiled function if all of that is to "
                  "be one graph");
  }
  if (known.kind == CallKind::kSeeds && (args.empty() || args[0] == Py_None)) {
    return RefuseCall(callable);
  }
  step_.annotated = &known;
  // Nobody follows what it makes of its arguments' attributes.
  if (known.kind == CallKind::kPure) {
    for (PyObject* arg : args) values_.MarkExactReachable(arg);
  }
  if (PyFunction_Check(callable) && IsOld(callable) &&
      IsFirst(callable, nullptr)) {
    guards_.AddFunction(callable, NoteOf(CallableName(callable)));
  }
  if (IsPythonClass(Py_TYPE(callable))) objects_.TouchClasses({&callable, 1});
  if (!CheckArguments(known, callable, args)) return;
  if (known.kind == CallKind::kDraw) {
    return draws_.DrawNumber(callable, args, keyword_names);
  }
  if (known.kind == CallKind::kAsk || known.kind == CallKind::kClock) {
    return draws_.Ask(known.kind, callable, args, keyword_names);
  }
  if (known.kind == CallKind::kLog) {
    return messages_.Log(callable, args, keyword_names);
  }
  if (known.kind == CallKind::kGenerator) {
    return generators_.Call(callable, args, keyword_names);
  }
  if (known.kind == CallKind::kHost) {
    return host_calls_.Call(callable, args, keyword_names,
                            HostCallWatch::SinkInC(callable, args));
  }
  for (PyObject* arg : args) objects_.Touch(arg, kDeep);
}

}  // namespace mica
