// Holds a Graph's kernels to ATen's.

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "python/capture/graph/graph.h"
#include "python/process/progress.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

TensorType TypeOf(const TensorMeta& meta, DType dtype) {
  return {.dtype = dtype,
          .dims = {meta.sizes.begin(), meta.sizes.end()},
          .strides = {meta.strides.begin(), meta.strides.end()}};
}

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
    auto built = BuildExact(*tape, states);
    if (!built.ok() || (*built)->plan_ == plan_) return nullptr;
    exact_ = *std::move(built);
  }
  std::shared_ptr<Graph> exact = exact_;
  const auto own = Compute(inputs, states, numbers);
  const auto others = exact->Compute(inputs, states, numbers);
  Discrepancy found;
  if (own.ok() && others.ok()) {
    found = Compare(*own, *exact, *others, num_results, &exact->inaccuracy_);
  }
  if (found.is_none) num_checks_left_ = num_left - 1;
  exact->idle_.clear();  // The arena of a run that may not come again.
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

absl::StatusOr<Graph::Computed> Graph::Compute(
    absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
    absl::Span<const double> numbers) {
  if (options_.frozen && IsStale(states)) MICA_RETURN_IF_ERROR(Bind(states));
  MICA_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner, Acquire());
  FeedJob(inputs, states, numbers, *runner);
  Computed computed{.outputs = std::vector<PyRef>(outputs_.size())};
  std::vector<PyObject*> lent;
  MICA_RETURN_IF_ERROR(
      PlaceOutputs({}, *runner->job, &computed.outputs, &lent));
  std::optional<TorchGeneratorStates> random;
  if (!generators_.empty()) random.emplace(generators_);
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  status = runner->job->Compute();
  Py_END_ALLOW_THREADS;
  if (random.has_value()) random->Restore();
  if (status.ok()) status = CheckHostReads(*runner);
  computed.numbers.assign(runner->host_values.begin() + host_reads_.size(),
                          runner->host_values.end());
  idle_.push_back(std::move(runner));
  MICA_RETURN_IF_ERROR(status);
  return computed;
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
    if (place.source != LoweredResult::Source::kOutput) continue;
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
    add(FindDiscrepancy(TypeOf(meta, place.dtype), mine.get(), theirs.get()),
        "result", i);
  }
  for (size_t i = 0; i < own.numbers.size(); ++i) {
    const TensorType type = plan_->output_type(lowered_.host_results[i]);
    add(FindDiscrepancy(type.dtype, 1, &own.numbers[i], &other.numbers[i]),
        "number", i);
  }
  return found;
}

}  // namespace mica
