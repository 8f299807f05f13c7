// How a Record gets the backward pass of its results.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/lower/split_tape.h"
#include "python/capture/autograd_access.h"
#include "python/capture/observation.h"
#include "python/capture/record.h"

namespace mica {
namespace {

constexpr char kMend[] =
    "compile the whole training step with its backward(), or run it under "
    "torch.no_grad() or torch.inference_mode()";

// A tensor on the tape, as a run makes it.
TensorMeta KindOf(const TapeTensor& tensor, const TensorMeta& like) {
  TensorMeta kind = like;
  kind.dtype = TorchDtype(tensor.dtype);
  kind.requires_grad = false;
  kind.sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  kind.strides.assign(tensor.strides.begin(), tensor.strides.end());
  return kind;
}

// Whether other tensors that the user has show the memory of one that autograd
// tracks: who writes through one of them changes what it knows of the others.
bool SharesMemory(const Tape& tape, size_t num_results, int live) {
  const int32_t storage = tape.tensors[tape.results[live]].storage;
  const auto shares = [&](TapeTensorId id) {
    return id != tape.results[live] && tape.tensors[id].storage == storage;
  };
  return std::any_of(tape.inputs.begin(), tape.inputs.end(), shares) ||
         std::any_of(tape.states.begin(), tape.states.end(), shares) ||
         std::any_of(tape.results.begin(), tape.results.begin() + num_results,
                     shares);
}

// Which root the gradient is; -1 if it is none.
int RootOf(const BackwardTrace& trace, PyObject* gradient) {
  for (size_t i = 0; i < trace.roots.size(); ++i) {
    if (trace.roots[i].get() == gradient) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

bool Record::TraceLater(Observation& run, absl::Span<PyObject* const> results,
                        const CaptureOptions& options, LaterPass* later,
                        Refusal* refusal) {
  std::vector<PyObject*> live;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!RequiresGrad(results[i]) ||
        run.watch.released_graphs().Has(results[i])) {
      continue;
    }
    later->live.push_back(static_cast<int>(i));
    live.push_back(results[i]);
  }
  if (live.empty()) return true;
  const auto refuse = [&](std::string why) {
    *refusal = {.reason = absl::StrCat("returns a tensor that requires grad",
                                       why.empty() ? "" : " and ", why),
                .mend = kMend};
    return false;
  };
  if (options.make_runner) return refuse("is run by another compiler");
  if (const char* why = BackwardPass::WhyEager(*options.backward_use)) {
    return refuse(why);
  }
  const auto add = [&](PyObject* external) {
    if (RequiresGrad(external)) later->externals.push_back(external);
  };
  for (const InputGuards::Tensor& tensor : inputs_.tensors()) {
    add(tensor.recorded);
  }
  for (const StateGuards::Tensor& tensor : run.watch.guards().tensors()) {
    add(tensor.tensor.get());
  }
  auto [trace, why] =
      TraceBackward(live, later->externals, run.first_node, &run.recorder);
  if (!why.empty()) return refuse(std::move(why));
  if (run.recorder.refusal()) return refuse(run.recorder.refusal().reason);
  for (PyObject* result : live) {
    BackwardUse::Watch(options.backward_use, result, run.first_node);
  }
  later->trace = std::move(trace);
  for (const BackwardTrace::Leaf& leaf : later->trace.leaves) {
    PyObject* gradient = leaf.gradient.get();
    if (RootOf(later->trace, gradient) >= 0) continue;
    if (std::find(later->gradients.begin(), later->gradients.end(), gradient) ==
        later->gradients.end()) {
      later->gradients.push_back(gradient);
    }
  }
  return true;
}

bool Record::AddBackward(Observation& run, LaterPass later,
                         const BoundCall& bound, const CaptureOptions& options,
                         Tape* tape, std::vector<TensorMeta>* kinds,
                         Refusal* refusal) {
  const auto refuse = [&](absl::string_view why) {
    *refusal = {
        .reason = absl::StrCat("returns a tensor that requires grad and ", why),
        .mend = kMend};
    return false;
  };
  const size_t num_made = kinds->size();
  for (const int live : later.live) {
    (*kinds)[live].requires_grad = false;  // Of the node behind it.
    if (SharesMemory(*tape, num_made, live)) {
      return refuse(
          "shares its memory with another result, an argument or "
          "the state");
    }
  }
  BackwardPass::Parts parts{.num_results = static_cast<int>(num_made),
                            .live = std::move(later.live),
                            .use = options.backward_use};
  for (const PyRef& root : later.trace.roots) {
    parts.roots.push_back(TensorMeta::Of(root.get()));
  }
  auto split = SplitAtBackward(*tape, static_cast<int>(parts.roots.size()),
                               static_cast<int>(later.gradients.size()));
  if (!split.ok()) return refuse(split.status().message());
  for (size_t i = num_made; i < split->first.results.size(); ++i) {
    kinds->push_back(
        KindOf(split->first.tensors[split->first.results[i]], parts.roots[0]));
  }
  std::vector<TensorMeta> gradients;
  for (PyObject* gradient : later.gradients) {
    gradients.push_back(TensorMeta::Of(gradient));
  }
  std::vector<PyObject*> states;
  for (const int32_t state : split->states) {
    parts.states.push_back(state);
    states.push_back(bound.states[state]);
  }
  GraphOptions graph_options = options.graph;
  graph_options.frozen = false;  // Who goes back trains.
  for (const TapeTensorId id : split->later.results) {
    const TapeOrigin origin = split->later.tensors[id].origin;
    if (origin == TapeOrigin::kInput || origin == TapeOrigin::kState) {
      return refuse("has a gradient that was there before");
    }
  }
  auto graph = Graph::Build(split->later, gradients, states, graph_options);
  if (!graph.ok()) return refuse(graph.status().message());
  for (BackwardTrace::Leaf& leaf : later.trace.leaves) {
    PyObject* tensor = later.externals[leaf.external];
    const auto at = std::find(later.gradients.begin(), later.gradients.end(),
                              leaf.gradient.get());
    BackwardPass::Leaf part{.tensor = PyRef::Share(tensor),
                            .root = RootOf(later.trace, leaf.gradient.get()),
                            .results = std::move(leaf.results)};
    if (part.root < 0) {
      part.result = static_cast<int>(at - later.gradients.begin());
    }
    for (size_t i = 0; i < inputs_.tensors().size(); ++i) {
      if (inputs_.tensors()[i].recorded != tensor) continue;
      part.tensor = PyRef();
      part.input = static_cast<int>(i);
    }
    parts.leaves.push_back(std::move(part));
  }
  parts.kept = std::move(split->kept);
  parts.numbers.assign(split->numbers.begin(), split->numbers.end());
  backward_ =
      std::make_shared<BackwardPass>(*std::move(graph), std::move(parts));
  *tape = std::move(split->first);
  return true;
}

}  // namespace mica
