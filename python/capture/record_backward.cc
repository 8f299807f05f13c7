// How a Record gets the backward pass of its results.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/split_tape.h"
#include "python/capture/autograd_access.h"
#include "python/capture/observation.h"
#include "python/capture/record.h"

namespace mica {
namespace {

constexpr char kShares[] =
    "shares its memory with another result, an argument or the state in a way "
    "that autograd doesn't know";
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

// Which root the gradient is; -1 if it is none.
int RootOf(const BackwardTrace& trace, PyObject* gradient) {
  for (size_t i = 0; i < trace.roots.size(); ++i) {
    if (trace.roots[i].get() == gradient) return static_cast<int>(i);
  }
  return -1;
}

// Whether autocast would have operators of the tape in lower precision.
bool MindsAutocast(const Tape& tape) {
  static constexpr absl::string_view kLowered[] = {
      "aten.addbmm", "aten.addmm",  "aten.baddbmm", "aten.bmm",
      "aten.linear", "aten.matmul", "aten.mm"};
  return absl::c_any_of(tape.calls, [&](const TapeCall& call) {
    if (!absl::c_linear_search(kLowered, call.op)) return false;
    bool has_floats = false;
    for (const TapeValue& arg : call.args) {
      ForEachTensor(arg, [&](TapeTensorId id) {
        has_floats = has_floats || tape.tensors[id].dtype == "f32";
      });
    }
    return has_floats;
  });
}

}  // namespace

bool Record::FindTracked(Observation& run, std::vector<PyObject*>* results,
                         LaterPass* later) const {
  const size_t num_results = results->size();
  const auto is_shared = [&](PyObject* tensor) {
    const auto shares = [tensor](PyObject* other) {
      return other != tensor && HaveOneStorage(tensor, other);
    };
    return std::any_of(results->begin(), results->begin() + num_results,
                       shares) ||
           std::any_of(inputs_.tensors().begin(), inputs_.tensors().end(),
                       [&](const auto& one) { return shares(one.recorded); }) ||
           std::any_of(
               run.watch.guards().tensors().begin(),
               run.watch.guards().tensors().end(),
               [&](const auto& one) { return shares(one.tensor.get()); });
  };
  const auto add = [](auto one, auto* to) {
    if (std::find(to->begin(), to->end(), one) == to->end()) to->push_back(one);
  };
  std::vector<PyObject*> bases;
  for (size_t i = 0; i < num_results; ++i) {
    PyObject* result = (*results)[i];
    if (!RequiresGrad(result) || run.watch.released_graphs().Has(result)) {
      continue;
    }
    std::optional<ViewRelation> relation;
    if (is_shared(result)) relation = ViewRelationOf(result);
    if (!relation.has_value()) {
      later->live.push_back(static_cast<int>(i));
      continue;
    }
    PyObject* base = relation->base.get();
    if (!RequiresGrad(base)) return false;
    const auto& known = later->externals;
    if (std::find(known.begin(), known.end(), base) == known.end()) {
      add(base, &bases);
    }
    later->views.push_back({.result = static_cast<int>(i),
                            .base = std::move(relation->base),
                            .creation = relation->creation});
  }
  for (PyObject* base : bases) {
    const auto at = std::find(results->begin(), results->end(), base);
    const int index = static_cast<int>(at - results->begin());
    if (at == results->end()) results->push_back(base);
    add(index, &later->live);
    for (LaterPass::View& view : later->views) {
      if (view.base.get() == base) view.root = index;
    }
  }
  return true;
}

bool Record::TraceLater(Observation& run, const CaptureOptions& options,
                        std::vector<PyObject*>* results, LaterPass* later,
                        Refusal* refusal) {
  const auto refuse = [&](std::string why) {
    *refusal = {.reason = absl::StrCat("returns a tensor that requires grad",
                                       why.empty() ? "" : " and ", why),
                .mend = kMend};
    return false;
  };
  const auto add = [&](PyObject* external) {
    if (RequiresGrad(external)) later->externals.push_back(external);
  };
  for (const InputGuards::Tensor& tensor : inputs_.tensors()) {
    add(tensor.recorded);
  }
  for (const StateGuards::Tensor& tensor : run.watch.guards().tensors()) {
    add(tensor.tensor.get());
  }
  if (!FindTracked(run, results, later)) return refuse(kShares);
  if (later->live.empty() && later->views.empty()) return true;
  if (options.make_runner) return refuse("is run by another compiler");
  if (const char* why = BackwardPass::WhyEager(*options.backward_use)) {
    return refuse(why);
  }
  if (later->live.empty()) return true;
  std::vector<PyObject*> live;
  for (const int index : later->live) live.push_back((*results)[index]);
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

std::optional<std::vector<BackwardPass::View>> Record::PlaceViews(
    const Tape& tape, const LaterPass& later, const BoundCall& bound,
    const std::vector<TensorMeta>& kinds) const {
  absl::flat_hash_set<int32_t> taken;  // Memories that one tensor stands for.
  for (const TapeTensorId id : tape.inputs) {
    taken.insert(tape.tensors[id].storage);
  }
  for (const TapeTensorId id : tape.states) {
    taken.insert(tape.tensors[id].storage);
  }
  for (const int live : later.live) {
    const TapeTensor& tensor = tape.tensors[tape.results[live]];
    if (!taken.insert(tensor.storage).second) return std::nullopt;
  }
  std::vector<BackwardPass::View> views;
  for (const LaterPass::View& view : later.views) {
    BackwardPass::View placed{.result = view.result, .creation = view.creation};
    TapeTensorId base = kNoTapeTensor;
    if (view.root >= 0) {
      placed.root = view.root;
      base = tape.results[view.root];
    } else if (const int input = inputs_.FindTensor(view.base.get());
               input >= 0) {
      placed.input = input;
      base = tape.inputs[input];
    } else {
      const auto state =
          std::find(bound.states.begin(), bound.states.end(), view.base.get());
      if (state == bound.states.end()) return std::nullopt;
      placed.tensor = view.base;
      base = tape.states[state - bound.states.begin()];
    }
    const TapeTensor& of = tape.tensors[base];
    const TapeTensor& own = tape.tensors[tape.results[view.result]];
    if (own.storage != of.storage || own.dtype != of.dtype ||
        kinds[view.result].has_lazy_bits()) {
      return std::nullopt;
    }
    views.push_back(std::move(placed));
  }
  return views;
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
  auto views = PlaceViews(*tape, later, bound, *kinds);
  if (!views.has_value()) return refuse(kShares);
  for (const int live : later.live) {
    (*kinds)[live].requires_grad = false;  // Of the node behind it.
  }
  for (const BackwardPass::View& view : *views) {
    (*kinds)[view.result].requires_grad = false;
  }
  BackwardPass::Parts parts{.num_results = static_cast<int>(num_made),
                            .live = std::move(later.live),
                            .views = *std::move(views),
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
  if (MindsAutocast(split->later)) options.backward_use->SetMindsAutocast();
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
    part.input = inputs_.FindTensor(tensor);
    if (part.input >= 0) part.tensor = PyRef();
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
