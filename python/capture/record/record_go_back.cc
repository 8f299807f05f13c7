// Going back through a run for a Record, functions in Python on the way
// included.

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "python/capture/record/record.h"
#include "python/capture/watch/observation.h"
#include "python/torch_side/autograd/autograd_access.h"

namespace mica {

std::vector<PyObject*> Record::SharersOf(
    PyObject* tensor, Observation& run,
    absl::Span<PyObject* const> results) const {
  std::vector<PyObject*> sharers;
  const auto see = [&](PyObject* other) {
    if (other != tensor && HaveOneStorage(tensor, other)) {
      sharers.push_back(other);
    }
  };
  for (PyObject* result : results) see(result);
  for (const auto& input : inputs_.tensors()) see(input.recorded);
  for (const auto& state : run.watch.guards().tensors()) {
    see(state.tensor.get());
  }
  return sharers;
}

bool Record::GoBack(Observation& run, const CaptureOptions& options,
                    absl::Span<PyObject* const> live, LaterPass* later,
                    std::string* why) {
  std::optional<RandomState> random;
  const auto on_python = [&] {
    later->reads = std::make_unique<BackwardPass::Reads>();
    later->reads->torch_state = TorchState::Current();
    random.emplace();
    run.mark = run.recorder.now();
    run.watch.BeginLaterPass();
    SetCapturing(true);
    run.stream = MakeInterpreterStream(&run.watch);
    run.stream->Start();
  };
  std::tie(later->trace, *why) =
      TraceBackward(live, later->externals, run.first_node,
                    *options.backward_use, &run.recorder, on_python);
  if (later->reads != nullptr) {
    run.stream->Stop();
    run.watch.EndStep(nullptr, /*entered=*/false);
    SetCapturing(false);
    random->Restore();
    Refusal refusal;
    later->reads->guards = run.watch.EndLaterPass(&refusal);
    if (refusal) {
      *why = absl::StrCat("is made by an autograd.Function whose backward() ",
                          refusal.ToString());
    }
  }
  if (why->empty() && run.recorder.refusal()) {
    *why = run.recorder.refusal().reason;
  }
  return why->empty();
}

}  // namespace mica
