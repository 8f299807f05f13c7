// Calls of functions and methods in C, of which a table says what they do.

#ifndef MICA_PYTHON_CAPTURE_WATCH_BUILTIN_CALLS_H_
#define MICA_PYTHON_CAPTURE_WATCH_BUILTIN_CALLS_H_

#include "absl/types/span.h"
#include "python/capture/known/asked_states.h"
#include "python/capture/known/purity.h"
#include "python/capture/watch/annotated_calls.h"
#include "python/capture/watch/attribute_watch.h"
#include "python/capture/watch/hook_handles.h"
#include "python/capture/watch/item_watch.h"
#include "python/capture/watch/number_functions.h"
#include "python/capture/watch/text_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Has the other parts look at the arguments of a call as its CallKind wants.
class BuiltinCalls final : public WatchPart {
 public:
  struct Parts {
    ContainerChanges& containers;
    const HookHandles& handles;
    IdentityWatch& identity;
    ArrayWatch& arrays;
    ObjectWatch& objects;
    NumberWatch& numbers;
    NumberFunctions& functions;
    TensorWatch& tensors;
    AttributeWatch& attributes;
    ItemWatch& items;
    TextWatch& texts;
    HostCallWatch& host_calls;
    MessageWatch& messages;
    AnnotatedCalls& annotated;
  };
  BuiltinCalls(WatchGround& ground, const Parts& parts)
      : WatchPart(ground), parts_(parts) {}

  // What there was to be asked before the run. Outlives the watch.
  void SetAsked(const AskedStates* asked) { asked_ = asked; }
  const AskedStates* asked() const { return asked_; }

  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names);
  // Whether it is a list, tuple or dict that holds numbers that are followed:
  // its text is made item by item.
  bool TellsNumbers(PyObject* container) const;
  bool FormatsNumbers(absl::Span<PyObject* const> args) const;

 private:
  struct BuiltinCall {
    PyObject* callable = nullptr;
    const CallAnnotation* known = nullptr;
    CallKind kind = CallKind::kUnknown;
    absl::Span<PyObject* const> args;
    absl::Span<PyObject* const> all;  // Behind what it is bound to, if that.
    PyObject* keyword_names = nullptr;
  };
  // Of isinstance() and its like.
  void AskTypes(const BuiltinCall& call);
  // Whether a function of ours, in Python, is called in place of `callable`:
  // of one in C that runs Python code for its items, or sets items one by one.
  bool CallInPython(PyObject* callable, absl::Span<PyObject* const> args,
                    PyObject* keyword_names);
  // That function, if it is one of mica.folds.
  PyRef FoldInPython(PyObject* callable, absl::Span<PyObject* const> args,
                     PyObject* keyword_names) const;
  // Of sorted() and list.sort(): whether they are done so.
  bool SortsByNumbers(absl::Span<PyObject* const> args, PyObject* keyword_names,
                      bool is_method);
  // The kinds of CallKind, by what they are about. False for others.
  bool CallOnTensors(const BuiltinCall& call);
  bool CallOnValues(const BuiltinCall& call);
  bool CallOnState(const BuiltinCall& call);
  // By the function of this name.
  void SetState(absl::string_view name);
  bool CallOutside(const BuiltinCall& call);
  // Single kinds.
  void ReadData(const BuiltinCall& call);
  void CallPure(const BuiltinCall& call);
  void Move(const BuiltinCall& call);
  void New(const BuiltinCall& call);
  void TakeAddress(const BuiltinCall& call);
  void UseAttribute(const BuiltinCall& call);
  void UseContext(const BuiltinCall& call);
  // object.__reduce_ex__: of an instance of a class of Python's.
  void Reduce(const BuiltinCall& call);
  // A function of torch's or Python's state: what it gave before the run.
  void AskAgain(const BuiltinCall& call);
  void AddAnswer(const AskedStates::Answer& answer);
  // All arguments, and what they hold.
  void TouchAll(const BuiltinCall& call, int depth = kDeep);

  const Parts parts_;
  const AskedStates* asked_ = nullptr;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_BUILTIN_CALLS_H_
