// The graphs of a later backward pass.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "analysis/lower/extreme_gradients.h"
#include "framework/base/status.h"
#include "framework/tensor/dtype.h"
#include "python/capture/record/later_pass.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

template <typename T>
int IndexOf(const std::vector<T>& all, const T& one) {
  return static_cast<int>(std::find(all.begin(), all.end(), one) - all.begin());
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

// Whether elements lie upon each other, as expand() makes them: a gradient that
// goes through a view by sizes and strides is shared out among those.
bool LiesUponItself(const TapeTensor& tensor) {
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] > 1 && tensor.strides[i] == 0) return true;
  }
  return false;
}

// Whether one dtype is of the other's parts.
bool IsPartOf(absl::string_view a, absl::string_view b) {
  const auto one = ParseDType(a), other = ParseDType(b);
  return one.has_value() && other.has_value() &&
         RealDType(*one) == RealDType(*other);
}

}  // namespace

TapeTensorId LaterPass::PlaceBase(const Tape& tape, const View& view,
                                  const Record::BoundCall& bound,
                                  ResultViews::View* placed) const {
  if (view.root >= 0) {
    placed->root = view.root;
    return tape.results[view.root];
  }
  PyObject* base = view.base.get();
  if (const int input = record_.inputs_.FindTensor(base); input >= 0) {
    placed->input = input;
    return tape.inputs[input];
  }
  const auto state = std::find(bound.states.begin(), bound.states.end(), base);
  if (state == bound.states.end()) return kNoTapeTensor;
  placed->tensor = base;
  return tape.states[state - bound.states.begin()];
}

std::optional<std::vector<ResultViews::View>> LaterPass::PlaceViews(
    const Tape& tape, const Record::BoundCall& bound,
    const std::vector<TensorMeta>& kinds) const {
  absl::flat_hash_set<int32_t> taken;  // Memories that one tensor stands for.
  for (const TapeTensorId id : tape.inputs) {
    taken.insert(tape.tensors[id].storage);
  }
  for (const TapeTensorId id : tape.states) {
    taken.insert(tape.tensors[id].storage);
  }
  for (const int live : live_) {
    const TapeTensor& tensor = tape.tensors[tape.results[live]];
    if (!taken.insert(tensor.storage).second) return std::nullopt;
  }
  std::vector<ResultViews::View> views;
  for (const View& view : views_) {
    ResultViews::View placed{.result = view.result,
                             .creation = view.creation,
                             .is_tracked = view.is_tracked,
                             .node = view.node,
                             .output = view.output};
    const TapeTensorId base = PlaceBase(tape, view, bound, &placed);
    const TapeTensor& own = tape.tensors[tape.results[view.result]];
    const bool is_of_same =
        base != kNoTapeTensor && own.dtype == tape.tensors[base].dtype;
    // Of complex numbers' parts, or the other way round.
    const bool is_of_parts = base != kNoTapeTensor &&
                             !kinds[view.result].requires_grad &&
                             IsPartOf(own.dtype, tape.tensors[base].dtype);
    if (base == kNoTapeTensor || own.storage != tape.tensors[base].storage ||
        (!is_of_same && !is_of_parts) ||
        (kinds[view.result].has_lazy_bits() &&
         kinds[view.result].requires_grad)) {
      if (kinds[view.result].requires_grad) return std::nullopt;
      continue;
    }
    if (view.is_tracked && LiesUponItself(tape.tensors[base])) {
      return std::nullopt;
    }
    views.push_back(std::move(placed));
  }
  return views;
}

bool LaterPass::AddTo(const Record::BoundCall& bound, Tape* tape,
                      std::vector<TensorMeta>* kinds, Refusal* refusal) {
  StateGuards& guards = run_.watch.guards();
  const size_t num_made = kinds->size();
  auto views = PlaceViews(*tape, bound, *kinds);
  if (!views.has_value()) return Refuse(kShares, refusal);
  for (const int live : live_) {
    (*kinds)[live].requires_grad = false;  // Of the node behind it.
  }
  for (const ResultViews::View& view : *views) {
    (*kinds)[view.result].requires_grad = false;
    record_.Keep(guards, view.tensor);
  }
  record_.result_views_ = ResultViews(*std::move(views), std::move(writes_));
  if (live_.empty()) return true;
  FindExtremesWithoutReads(*tape);
  auto split = Split(*tape);
  if (!split.ok()) return Refuse(split.status().message(), refusal);
  for (size_t i = num_made; i < split->first.results.size(); ++i) {
    const TapeTensorId id = split->first.results[i];
    const PyRef& like = trace_.parts[0].entries[0].root;
    kinds->push_back(
        KindOf(split->first.tensors[id], TensorMeta::Of(like.get())));
  }
  auto parts = MakeParts(&*split, bound, refusal);
  if (!parts.has_value()) return false;
  for (const BackwardPass::Part& part : *parts) {
    for (const BackwardPass::Output& output : part.outputs) {
      record_.Keep(guards, output.tensor);
    }
  }
  record_.run_->backward = std::make_shared<BackwardPass>(
      static_cast<int>(num_made), *std::move(parts), options_.backward_use,
      std::move(reads_));
  *tape = std::move(split->first);
  return true;
}

std::optional<std::vector<BackwardPass::Part>> LaterPass::MakeParts(
    SplitTape* split, const Record::BoundCall& bound, Refusal* refusal) {
  const GraphOptions options = OptionsOfPass(options_.graph);
  std::vector<BackwardPass::Part> parts;
  for (size_t i = 0; i < split->later.size(); ++i) {
    SplitTape::Later& made = split->later[i];
    for (const TapeTensorId id : made.tape.results) {
      const TapeOrigin origin = made.tape.tensors[id].origin;
      if (origin != TapeOrigin::kInput && origin != TapeOrigin::kState) {
        continue;
      }
      Refuse("has a gradient that was there before", refusal);
      return std::nullopt;
    }
    if (MindsAutocast(made.tape)) options_.backward_use->SetMindsAutocast();
    if (options_.graph.exact && MindsLayout(made.tape)) {
      options_.backward_use->SetMindsLayout();
    }
    auto part = MakePart(static_cast<int>(i), std::move(made), bound, options);
    if (!part.ok()) {
      Refuse(part.status().message(), refusal);
      return std::nullopt;
    }
    parts.push_back(*std::move(part));
  }
  return parts;
}

absl::StatusOr<SplitTape> LaterPass::Split(const Tape& tape) const {
  return SplitAtBackward(tape, NumArgs(tape), NumResults(tape), Outline(tape));
}

int LaterPass::NumArgs(const Tape& tape) const {
  int num_roots = 0;
  for (const BackwardTrace::Part& part : trace_.parts) {
    num_roots += static_cast<int>(part.entries.size());
  }
  return static_cast<int>(tape.inputs.size()) - num_roots;
}

int LaterPass::NumResults(const Tape& tape) const {
  return static_cast<int>(tape.results.size() - gradients_.size());
}

std::vector<LaterPart> LaterPass::Outline(const Tape& tape) const {
  const int num_args = NumArgs(tape), num_results = NumResults(tape);
  std::vector<LaterPart> parts;
  for (const BackwardTrace::Part& part : trace_.parts) {
    LaterPart outline;
    for (const BackwardTrace::Entry& entry : part.entries) {
      outline.roots.push_back(num_args + entry.number);
    }
    for (PyObject* gradient : GradientsOf(part)) {
      outline.gradients.push_back(num_results + IndexOf(gradients_, gradient));
    }
    parts.push_back(std::move(outline));
  }
  return parts;
}

absl::StatusOr<BackwardPass::Part> LaterPass::MakePart(
    int index, SplitTape::Later made, const Record::BoundCall& bound,
    const GraphOptions& options) const {
  const BackwardTrace::Part& traced = trace_.parts[index];
  BackwardPass::Part part{.is_used_up = traced.is_used_up};
  for (const BackwardTrace::Entry& entry : traced.entries) {
    part.entries.push_back(
        {.meta = TensorMeta::Of(entry.root.get()),
         .result = entry.result < 0 ? -1 : live_[entry.result],
         .live = entry.result,
         .node = entry.result < 0 ? "" : nodes_[entry.result]});
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
  // As for a record's gradients.
  GraphOptions unchecked = options;
  unchecked.checks_accuracy = false;
  MICA_ASSIGN_OR_RETURN(part.graph,
                        Graph::Build(made.tape, kinds, states, unchecked));
  for (const BackwardTrace::Output& output : traced.outputs) {
    part.outputs.push_back(PlaceOutput(traced, output, gradients, bound));
  }
  part.kinds = std::move(kinds);
  part.kept = std::move(made.kept);
  part.numbers.assign(made.numbers.begin(), made.numbers.end());
  return part;
}

BackwardPass::Output LaterPass::PlaceOutput(
    const BackwardTrace::Part& part, const BackwardTrace::Output& output,
    const std::vector<PyObject*>& gradients,
    const Record::BoundCall& bound) const {
  BackwardPass::Output placed{.part = output.part,
                              .entry = output.entry,
                              .root = EntryOf(part, output.gradient.get()),
                              .entries = output.entries};
  if (placed.root < 0) {
    placed.result = IndexOf(gradients, output.gradient.get());
  }
  if (output.external >= 0) {
    PyObject* tensor = externals_[output.external];
    placed.input = record_.inputs_.FindTensor(tensor);
    const bool is_kept_cast = absl::c_any_of(
        run_.recorder.kept_weights(),
        [&](const auto& kept) { return kept.cast.get() == tensor; });
    if (is_kept_cast) {
      placed.state = IndexOf(bound.states, tensor);
    } else if (placed.input < 0) {
      placed.tensor = tensor;
    }
  }
  return placed;
}

}  // namespace mica
