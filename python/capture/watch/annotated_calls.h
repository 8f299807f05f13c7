// Calls of what is known without looking into it.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ANNOTATED_CALLS_H_
#define MICA_PYTHON_CAPTURE_WATCH_ANNOTATED_CALLS_H_

#include "absl/types/span.h"
#include "python/capture/known/purity.h"
#include "python/capture/watch/draw_watch.h"
#include "python/capture/watch/generator_watch.h"
#include "python/capture/watch/host_call_watch.h"
#include "python/capture/watch/message_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/tensor_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Does what an annotation says of a call in place of following it.
class AnnotatedCalls final : public WatchPart {
 public:
  struct Parts {
    ObjectWatch& objects;
    TensorWatch& tensors;
    HostCallWatch& host_calls;
    DrawWatch& draws;
    GeneratorWatch& generators;
    MessageWatch& messages;
  };
  AnnotatedCalls(WatchGround& ground, const Parts& parts)
      : WatchPart(ground),
        objects_(parts.objects),
        tensors_(parts.tensors),
        host_calls_(parts.host_calls),
        draws_(parts.draws),
        generators_(parts.generators),
        messages_(parts.messages) {}

  // `args` begin with what `callable` is bound to. `known` outlives the step.
  void Call(const CallAnnotation& known, PyObject* callable,
            absl::Span<PyObject* const> args, PyObject* keyword_names);

 private:
  // False, refused, if the call reads or writes an argument past torch.
  bool CheckArguments(const CallAnnotation& known, PyObject* callable,
                      absl::Span<PyObject* const> args);

  ObjectWatch& objects_;
  TensorWatch& tensors_;
  HostCallWatch& host_calls_;
  DrawWatch& draws_;
  GeneratorWatch& generators_;
  MessageWatch& messages_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ANNOTATED_CALLS_H_
