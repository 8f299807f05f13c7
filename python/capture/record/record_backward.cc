// How a Record gets the backward pass of its results.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/extreme_gradients.h"
#include "analysis/lower/split_tape.h"
#include "framework/base/status.h"
#include "python/capture/record/record.h"
#include "python/capture/watch/observation.h"
#include "python/torch_side/autograd/autograd_access.h"

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

// Which entry of the part the gradient is; -1 if it is none.
int EntryOf(const BackwardTrace::Part& part, PyObject* gradient) {
  for (size_t i = 0; i < part.entries.size(); ++i) {
    if (part.entries[i].root.get() == gradient) return static_cast<int>(i);
  }
  return -1;
}

template <typename T>
int IndexOf(const std::vector<T>& all, const T& one) {
  return static_cast<int>(std::find(all.begin(), all.end(), one) - all.begin());
}

// What the part's graph computes, each once.
std::vector<PyObject*> GradientsOf(const BackwardTrace::Part& part) {
  std::vector<PyObject*> gradients;
  for (const BackwardTrace::Output& output : part.outputs) {
    PyObject* gradient = output.gradient.get();
    if (EntryOf(part, gradient) >= 0) continue;
    const bool is_known = absl::c_linear_search(gradients, gradient);
    if (!is_known) gradients.push_back(gradient);
  }
  return gradients;
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

// Whether the bits of what the tape computes depend on the layout in memory of
// what it is given: sums go along it.
bool MindsLayout(const Tape& tape) {
  static constexpr absl::string_view kSums[] = {
      "aten.native_batch_norm_backward", "aten.batch_norm_backward",
      "aten.native_group_norm_backward", "aten.native_layer_norm_backward",
      "aten.convolution_backward",       "aten.sum.dim_IntList"};
  return absl::c_any_of(tape.calls, [&](const TapeCall& call) {
    return absl::c_linear_search(kSums, call.op);
  });
}

}  // namespace

bool Record::FindTracked(Observation& run, std::vector<PyObject*>* results,
                         LaterPass* later) const {
  const std::vector<PyObject*> own = *results;
  for (size_t i = 0; i < own.size(); ++i) {
    PyObject* result = own[i];
    const auto index = static_cast<int>(i);
    const std::vector<PyObject*> sharers = SharersOf(result, run, own);
    const auto is_old = [&](PyObject* tensor) {
      return !absl::c_linear_search(own, tensor);
    };
    const auto shares_writes = [&](PyObject* other) {
      return ShareWrites(result, other);
    };
    const bool is_own = absl::c_none_of(sharers, shares_writes);
    const int64_t count = VersionOf(result);
    if (is_own ? count > 0 || !sharers.empty()
               : count > 0 && absl::c_none_of(sharers, is_old)) {
      later->writes.push_back({.result = index,
                               .count = count,
                               .is_own = is_own && !sharers.empty()});
    }
    if (run.watch.released_graphs().Has(result)) continue;
    std::optional<ViewRelation> relation;
    const bool is_made_by_operator = RequiresGrad(result) && !IsLeaf(result);
    // Of views that nothing else has the memory of, users don't know.
    if (!sharers.empty() || (RequiresGrad(result) && !is_made_by_operator)) {
      relation = ViewRelationOf(result);
    }
    if (!relation.has_value()) {
      if (RequiresGrad(result)) later->live.push_back(index);
      continue;
    }
    PyObject* base = relation->base.get();
    if (RequiresGrad(result) && !is_made_by_operator && !RequiresGrad(base)) {
      later->live.push_back(index);  // A leaf that the program made.
      continue;
    }
    if (is_made_by_operator && !RequiresGrad(base)) return false;
    const bool is_known = absl::c_linear_search(sharers, base);
    if (!is_known && !RequiresGrad(base) && !run.recorder.HasWritten(base)) {
      continue;
    }
    later->views.push_back({.result = index,
                            .base = std::move(relation->base),
                            .creation = relation->creation,
                            .is_tracked = is_made_by_operator});
  }
  AddBases(results, later);
  return true;
}

void Record::AddBases(std::vector<PyObject*>* results, LaterPass* later) {
  for (LaterPass::View& view : later->views) {
    PyObject* base = view.base.get();
    const auto at = std::find(results->begin(), results->end(), base);
    const int index = static_cast<int>(at - results->begin());
    if (at == results->end()) {
      if (absl::c_linear_search(later->known, base)) continue;
      results->push_back(base);
      if (RequiresGrad(base)) later->live.push_back(index);
    }
    view.root = index;
  }
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
    later->known.push_back(external);
    if (RequiresGrad(external)) later->externals.push_back(external);
  };
  for (const InputGuards::Tensor& tensor : inputs_.tensors()) {
    add(tensor.recorded);
  }
  for (const StateGuards::Tensor& tensor : run.watch.guards().tensors()) {
    add(tensor.tensor.get());
  }
  if (!FindTracked(run, results, later)) return refuse(kShares);
  const bool is_tracked =
      !later->live.empty() ||
      absl::c_any_of(later->views, [](const LaterPass::View& view) {
        return view.is_tracked;
      });
  if (!is_tracked) return true;
  if (options.make_runner) return refuse("is run by another compiler");
  if (const char* why = BackwardPass::WhyEager(*options.backward_use)) {
    return refuse(why);
  }
  if (later->live.empty()) return true;
  if (run.watch.saved_tensor_hooks()) {
    *refusal = run.watch.saved_tensor_hooks();
    return false;
  }
  std::vector<PyObject*> live;
  for (const int index : later->live) live.push_back((*results)[index]);
  std::string why;
  if (!GoBack(run, options, live, later, &why)) return refuse(std::move(why));
  for (const BackwardTrace::Part& part : later->trace.parts) {
    for (const BackwardTrace::Entry& entry : part.entries) {
      if (entry.result < 0) continue;
      const TensorMeta root = TensorMeta::Of(entry.root.get());
      BackwardUse::Watch(options.backward_use, live[entry.result], entry.result,
                         {root.strides.begin(), root.strides.end()},
                         run.first_node);
    }
  }
  absl::flat_hash_set<PyObject*> known;
  for (const BackwardTrace::Part& part : later->trace.parts) {
    for (const BackwardTrace::Output& output : part.outputs) {
      PyObject* gradient = output.gradient.get();
      if (EntryOf(part, gradient) >= 0) continue;
      if (known.insert(gradient).second) later->gradients.push_back(gradient);
    }
  }
  return true;
}

TapeTensorId Record::PlaceBase(const Tape& tape, const LaterPass::View& view,
                               const BoundCall& bound,
                               ResultViews::View* placed) const {
  if (view.root >= 0) {
    placed->root = view.root;
    return tape.results[view.root];
  }
  PyObject* base = view.base.get();
  if (const int input = inputs_.FindTensor(base); input >= 0) {
    placed->input = input;
    return tape.inputs[input];
  }
  const auto state = std::find(bound.states.begin(), bound.states.end(), base);
  if (state == bound.states.end()) return kNoTapeTensor;
  placed->tensor = base;
  return tape.states[state - bound.states.begin()];
}

std::optional<std::vector<ResultViews::View>> Record::PlaceViews(
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
  std::vector<ResultViews::View> views;
  for (const LaterPass::View& view : later.views) {
    ResultViews::View placed{.result = view.result,
                             .creation = view.creation,
                             .is_tracked = view.is_tracked};
    const TapeTensorId base = PlaceBase(tape, view, bound, &placed);
    const TapeTensor& own = tape.tensors[tape.results[view.result]];
    if (base == kNoTapeTensor || own.storage != tape.tensors[base].storage ||
        own.dtype != tape.tensors[base].dtype ||
        kinds[view.result].has_lazy_bits()) {
      if (kinds[view.result].requires_grad) return std::nullopt;
      continue;
    }
    views.push_back(std::move(placed));
  }
  return views;
}

bool Record::AddBackward(StateGuards& guards, LaterPass later,
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
  for (const ResultViews::View& view : *views) {
    (*kinds)[view.result].requires_grad = false;
    Keep(guards, view.tensor);
  }
  result_views_ = ResultViews(*std::move(views), std::move(later.writes));
  if (later.live.empty()) return true;
  FindExtremesWithoutReads(*tape);
  auto split = SplitLater(later, *tape);
  if (!split.ok()) return refuse(split.status().message());
  for (size_t i = num_made; i < split->first.results.size(); ++i) {
    const TapeTensorId id = split->first.results[i];
    const PyRef& like = later.trace.parts[0].entries[0].root;
    kinds->push_back(
        KindOf(split->first.tensors[id], TensorMeta::Of(like.get())));
  }
  GraphOptions graph_options = options.graph;
  graph_options.frozen = false;  // Who goes back trains.
  std::vector<BackwardPass::Part> parts;
  for (size_t i = 0; i < split->later.size(); ++i) {
    SplitTape::Later& made = split->later[i];
    for (const TapeTensorId id : made.tape.results) {
      const TapeOrigin origin = made.tape.tensors[id].origin;
      if (origin == TapeOrigin::kInput || origin == TapeOrigin::kState) {
        return refuse("has a gradient that was there before");
      }
    }
    if (MindsAutocast(made.tape)) options.backward_use->SetMindsAutocast();
    if (options.graph.exact && MindsLayout(made.tape)) {
      options.backward_use->SetMindsLayout();
    }
    auto part = MakePart(later, static_cast<int>(i), std::move(made), bound,
                         graph_options);
    if (!part.ok()) return refuse(part.status().message());
    for (const BackwardPass::Output& output : part->outputs) {
      Keep(guards, output.tensor);
    }
    parts.push_back(*std::move(part));
  }
  backward_ = std::make_shared<BackwardPass>(
      static_cast<int>(num_made), std::move(parts), options.backward_use,
      std::move(later.reads));
  *tape = std::move(split->first);
  return true;
}

absl::StatusOr<SplitTape> Record::SplitLater(const LaterPass& later,
                                             const Tape& tape) const {
  const auto num_gradients = static_cast<int>(later.gradients.size());
  const int num_results = static_cast<int>(tape.results.size()) - num_gradients;
  int num_roots = 0;
  for (const BackwardTrace::Part& part : later.trace.parts) {
    num_roots += static_cast<int>(part.entries.size());
  }
  const int num_args = static_cast<int>(tape.inputs.size()) - num_roots;
  std::vector<LaterPart> parts;
  for (const BackwardTrace::Part& part : later.trace.parts) {
    LaterPart outline;
    for (const BackwardTrace::Entry& entry : part.entries) {
      outline.roots.push_back(num_args + entry.number);
    }
    for (PyObject* gradient : GradientsOf(part)) {
      outline.gradients.push_back(num_results +
                                  IndexOf(later.gradients, gradient));
    }
    parts.push_back(std::move(outline));
  }
  return SplitAtBackward(tape, num_args, num_results, parts);
}

absl::StatusOr<BackwardPass::Part> Record::MakePart(
    const LaterPass& later, int index, SplitTape::Later made,
    const BoundCall& bound, const GraphOptions& options) const {
  const BackwardTrace::Part& traced = later.trace.parts[index];
  BackwardPass::Part part{.is_used_up = traced.is_used_up};
  for (const BackwardTrace::Entry& entry : traced.entries) {
    part.entries.push_back(
        {.meta = TensorMeta::Of(entry.root.get()),
         .result = entry.result < 0 ? -1 : later.live[entry.result],
         .live = entry.result});
  }
  const std::vector<PyObject*> gradients = GradientsOf(traced);
  std::vector<TensorMeta> kinds;
  for (PyObject* gradient : gradients) {
    kinds.push_back(TensorMeta::Of(gradient));
  }
  std::vector<PyObject*> states;
  for (const int32_t state : made.states) {
    part.states.push_back(state);
    states.push_back(bound.states[state]);
  }
  MICA_ASSIGN_OR_RETURN(part.graph,
                        Graph::Build(made.tape, kinds, states, options));
  for (const BackwardTrace::Output& output : traced.outputs) {
    BackwardPass::Output placed{.part = output.part,
                                .entry = output.entry,
                                .root = EntryOf(traced, output.gradient.get()),
                                .entries = output.entries};
    if (placed.root < 0) {
      placed.result = IndexOf(gradients, output.gradient.get());
    }
    if (output.external >= 0) {
      PyObject* tensor = later.externals[output.external];
      placed.input = inputs_.FindTensor(tensor);
      if (placed.input < 0) placed.tensor = tensor;
    }
    part.outputs.push_back(std::move(placed));
  }
  part.kept = std::move(made.kept);
  part.numbers.assign(made.numbers.begin(), made.numbers.end());
  return part;
}

}  // namespace mica
