// Holds a Graph's kernels to ATen's.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "python/capture/graph/graph.h"
#include "python/process/progress.h"

namespace mica {
namespace {

// As FindDiscrepancy(), of tensors of one type.
Discrepancy FindDiscrepancy(const TensorType& type, PyObject* own,
                            PyObject* other) {
  const int64_t count = type.num_elements();
  if (type.is_dense()) {
    return FindDiscrepancy(type.dtype, count, DataOf(own), DataOf(other));
  }
  return FindDiscrepancy(type.dtype, count, ElementBytes(own).data(),
                         ElementBytes(other).data());
}

}  // namespace

std::shared_ptr<Graph> Graph::CheckAccuracy(absl::Span<PyObject* const> inputs,
                                            absl::Span<PyObject* const> states,
                                            absl::Span<const double> numbers,
                                            int num_results) {
  // Another thread that comes here meanwhile has nothing to check.
  const int num_left = std::exchange(num_checks_left_, 0);
  if (num_left == 0) return nullptr;
  const Progress progress("check of accuracy");
  const TraceSpan span("capture", "check accuracy");
  if (exact_ == nullptr) {
    const std::unique_ptr<Tape> tape = std::move(whole_tape_);
    if (tape == nullptr) return nullptr;  // SkipChecks() came before.
    auto built = BuildExact(*tape, states);
    if (!built.ok() || (*built)->plan_ == plan_) return nullptr;
    exact_ = *std::move(built);
  }
  std::shared_ptr<Graph> exact = exact_;
  Discrepancy found;
  auto own = Compute(inputs, states, numbers, {});
  if (own.ok()) own->status.Update(TakeBack(*own));
  auto others = exact->Compute(inputs, states, numbers, {});
  if (others.ok()) others->status.Update(TakeBack(*others));
  if (own.ok() && others.ok() && own->status.ok() && others->status.ok()) {
    found = Compare(*own, *exact, *others, num_results, &exact->inaccuracy_);
  }
  // The other's memory goes: its run may not come again.
  if (own.ok()) idle_.push_back(std::move(own->runner));
  // Unless SkipChecks() came meanwhile, from another thread.
  if (found.is_none && exact_ != nullptr) num_checks_left_ = num_left - 1;
  if (num_checks_left_ == 0) exact_.reset();
  return found.excess == 0 ? nullptr : exact;
}

absl::StatusOr<std::unique_ptr<Graph>> Graph::BuildExact(
    const Tape& tape, absl::Span<PyObject* const> states) const {
  std::vector<TensorMeta> metas;
  for (const Result& result : results_) metas.push_back(result.meta);
  GraphOptions options = options_;
  options.exact = true;
  MICA_ASSIGN_OR_RETURN(std::unique_ptr<Graph> exact,
                        Build(tape, metas, states, options));
  for (size_t i = 0; i < results_.size(); ++i) {
    exact->results_[i].version = results_[i].version;
    exact->results_[i].node = results_[i].node;
  }
  exact->counted_inputs_ = counted_inputs_;
  exact->counted_states_ = counted_states_;
  return exact;
}

Discrepancy Graph::Compare(const Computed& own, const Graph& exact,
                           const Computed& other, int num_results,
                           std::string* which) const {
  Discrepancy found;
  const auto add = [&](Discrepancy one, absl::string_view what, size_t index) {
    found.is_none &= one.is_none;
    if (found.excess > 0 || one.excess == 0) return;
    found.excess = one.excess;
    *which = absl::StrCat(what, " ", index, " would differ by ",
                          absl::StrFormat("%.2g", one.excess));
  };
  for (size_t i = 0; i < results_.size(); ++i) {
    if (static_cast<int>(i) >= num_results) break;
    const LoweredResult& place = results_[i].place;
    if (place.source != LoweredResult::Source::kOutput || place.moved >= 0) {
      continue;
    }
    const TensorMeta& meta = results_[i].meta;
    const auto window = [&](const Computed& of, const LoweredResult& at) {
      return PyRef::Steal(NewView(of.outputs[at.index].get(), meta, at.offset));
    };
    const PyRef mine = window(own, place);
    const PyRef theirs = window(other, exact.results_[i].place);
    if (!mine || !theirs) {
      PyErr_Clear();
      continue;
    }
    add(FindDiscrepancy(results_[i].type(place.dtype), mine.get(),
                        theirs.get()),
        "result", i);
  }
  // What is only computed since it may raise comes after these, in one graph or
  // the other.
  for (size_t i = 0; i < tape_.host_results.size(); ++i) {
    const TensorType type = plan_->output_type(lowered_.host_results[i]);
    add(FindDiscrepancy(
            type.dtype, 1, &own.runner->host_values[host_reads_.size() + i],
            &other.runner->host_values[exact.host_reads_.size() + i]),
        "number", i);
  }
  return found;
}

}  // namespace mica
