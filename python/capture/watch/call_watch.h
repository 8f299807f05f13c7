// The calls that a program makes.

#ifndef MICA_PYTHON_CAPTURE_WATCH_CALL_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_CALL_WATCH_H_

#include "absl/types/span.h"
#include "python/capture/watch/annotated_calls.h"
#include "python/capture/watch/attribute_watch.h"
#include "python/capture/watch/builtin_calls.h"
#include "python/capture/watch/cache_uses.h"
#include "python/capture/watch/generator_watch.h"
#include "python/capture/watch/loop_watch.h"
#include "python/capture/watch/number_functions.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Tells kinds of callables apart: Python code is followed as it runs, of the
// rest it has to be known what it does.
class CallWatch final : public WatchPart {
 public:
  struct Parts {
    LoopWatch& loops;
    CacheUses& caches;
    IdentityWatch& identity;
    ArrayWatch& arrays;
    ObjectWatch& objects;
    NumberWatch& numbers;
    NumberFunctions& functions;
    TensorWatch& tensors;
    AttributeWatch& attributes;
    HostCallWatch& host_calls;
    GeneratorWatch& generators;
    AnnotatedCalls& annotated;
    BuiltinCalls& builtins;
  };
  CallWatch(WatchGround& ground, const Parts& parts)
      : WatchPart(ground), parts_(parts) {}

  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names = nullptr);

  // The step at hand raises this. Refuses where arguments don't fit a function
  // in Python: it isn't entered then, so nobody would see that it has changed.
  void Raised(PyObject* error);

  // See StreamListener.
  static bool IsFollowedCall(PyObject* callable);
  static bool Moves(PyObject* callable);
  // Whether a call in C may take something out of a container.
  static bool MayTakeOut(PyObject* callable, absl::Span<PyObject* const> args);
  bool TakesItemsOf(PyObject* callable, PyObject* iterator);

 private:
  // Whether dict(*args) moves items of a dict, or of a list of pairs, and looks
  // at keys alone; noted if so.
  bool MakeDict(absl::Span<PyObject* const> args);
  void CallType(PyTypeObject* type, absl::Span<PyObject* const> args);
  // Whether the call converts a number, which is followed; noted if so.
  bool Convert(PyTypeObject* type, absl::Span<PyObject* const> args);
  // Objects of C types that are functions of their own without effect.
  void CallPureObject(PyObject* callable, absl::Span<PyObject* const> args,
                      PyObject* keyword_names);
  void CallPartial(PyObject* partial, absl::Span<PyObject* const> args,
                   PyObject* keyword_names);
  // What functools.lru_cache made: a hit calls it again, so that the cache
  // knows what was used last.
  void CallCached(PyObject* wrapper, absl::Span<PyObject* const> args,
                  PyObject* keyword_names);
  // A function of TorchScript.
  void CallScript(PyObject* function, absl::Span<PyObject* const> args);
  // str() of a container that holds followed numbers, which Python code is
  // called for instead.
  bool MapsInPython(PyObject* callable, absl::Span<PyObject* const> args);
  bool MakesTextInPython(PyObject* callable, absl::Span<PyObject* const> args);
  // By its class's __call__, if that is Python code.
  void CallInstance(PyObject* callable, absl::Span<PyObject* const> args,
                    PyObject* keyword_names);

  const Parts parts_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_CALL_WATCH_H_
