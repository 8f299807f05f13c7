// Holds a Graph's kernels to ATen's, and tells how far products in few bits are
// from themselves in float32.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/pipeline/pass_pipeline.h"
#include "analysis/precision/quantise_products.h"
#include "executor/binding/binding.h"
#include "executor/job/job.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "python/capture/graph/graph.h"
#include "python/process/progress.h"
#include "python/torch_side/opaque/opaque.h"

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

// What has less to do with a result than this isn't one in fewer bits.
constexpr double kLeastCosine = 0.9;

// The passes that come before products get few bits, as a Plan has them.
PassPipeline PassesBeforePrecision() {
  return PassPipeline::All()
      .Without("choose-layouts")
      .Without("merge-elementwise");
}

// Of the tensors' elements in order.
VectorError ErrorOf(const TensorType& type, PyObject* own, PyObject* other) {
  const int64_t count = type.num_elements();
  if (type.is_dense()) {
    return FindVectorError(type.dtype, count, DataOf(own), DataOf(other));
  }
  return FindVectorError(type.dtype, count, ElementBytes(own).data(),
                         ElementBytes(other).data());
}

}  // namespace

std::shared_ptr<Graph> Graph::CheckAccuracy(absl::Span<PyObject* const> inputs,
                                            absl::Span<PyObject* const> states,
                                            absl::Span<const double> numbers,
                                            int num_results,
                                            std::shared_ptr<Computed>* done) {
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
  // ATen's kernels are to see what this run saw: one that writes in place, or
  // draws, is taken back.
  const bool keeps = own.ok() && own->status.ok() && !runner_ &&
                     plan_->undo().empty() && generators_.empty();
  if (own.ok() && !keeps) own->status.Update(TakeBack(*own));
  auto others = exact->Compute(inputs, states, numbers, {});
  if (others.ok()) others->status.Update(TakeBack(*others));
  if (own.ok() && others.ok() && own->status.ok() && others->status.ok()) {
    found =
        options_.precision == Precision::kAsWritten
            ? Compare(*own, *exact, *others, num_results, &exact->inaccuracy_)
            : CompareLoosely(*own, *exact, *others, num_results,
                             &exact->inaccuracy_);
  }
  if (options_.precision != Precision::kAsWritten && found.excess == 0) {
    const absl::Status status = MeasureProducts(inputs, states, numbers);
    precision_error_.failure = std::string(status.message());
    found.is_none = false;  // It is told of once.
  }
  // The other's memory goes: its run may not come again.
  if (keeps && found.excess == 0) {
    *done = std::make_shared<Computed>(*std::move(own));
  } else if (own.ok()) {
    idle_.push_back(std::move(own->runner));
  }
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
  options.precision = Precision::kAsWritten;
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

template <typename Visit>
void Graph::ForEachPair(const Computed& own, const Graph& exact,
                        const Computed& other, int num_results,
                        const Visit& visit) const {
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
    visit(i, results_[i].type(place.dtype), mine.get(), theirs.get());
  }
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
  ForEachPair(
      own, exact, other, num_results,
      [&](size_t i, const TensorType& type, PyObject* mine, PyObject* theirs) {
        add(FindDiscrepancy(type, mine, theirs), "result", i);
      });
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

Discrepancy Graph::CompareLoosely(const Computed& own, const Graph& exact,
                                  const Computed& other, int num_results,
                                  std::string* which) {
  Discrepancy found;
  PrecisionError& error = precision_error_;
  error.is_measured = true;
  ForEachPair(
      own, exact, other, num_results,
      [&](size_t i, const TensorType& type, PyObject* mine, PyObject* theirs) {
        if (!IsFloating(type.dtype)) return;
        const VectorError one = ErrorOf(type, theirs, mine);
        // NaNs count as worse than anything.
        if (!(one.relative <= error.worst.relative)) {
          error.worst.relative = one.relative;
        }
        if (!(one.cosine >= error.worst.cosine)) {
          error.worst.cosine = one.cosine;
        }
        if (found.excess > 0 || one.cosine >= kLeastCosine) return;
        found.excess = 1;
        *which = absl::StrCat("result ", i, " would have a cosine of ",
                              absl::StrFormat("%.2g", one.cosine),
                              " to float32's in ",
                              PrecisionName(options_.precision));
      });
  return found;
}

absl::Status Graph::MeasureProducts(absl::Span<PyObject* const> inputs,
                                    absl::Span<PyObject* const> states,
                                    absl::Span<const double> numbers) {
  MICA_ASSIGN_OR_RETURN(
      const Program passed,
      PassesBeforePrecision().Run(*program_, {AllOps(), AllKernels()}));
  MICA_ASSIGN_OR_RETURN(
      MeasuredProducts measured,
      mica::MeasureProducts(passed, AllOps(), options_.precision));
  if (measured.products.empty()) return absl::OkStatus();
  const auto program =
      std::make_shared<const Program>(std::move(measured.program));
  MICA_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                        Plan::Build(program, AllOps(), AllKernels(),
                                    {.num_threads = options_.num_threads,
                                     .prepare_aten = &PrepareAten}));
  MICA_ASSIGN_OR_RETURN(const std::shared_ptr<const Binding> binding,
                        Binding::Create(plan, VariableViews(states), program));
  MICA_ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, Job::Create(binding));
  for (size_t i = 0; i < inputs.size(); ++i) {
    job->SetInput(static_cast<int>(i), DataOf(inputs[i]));
  }
  std::vector<double> given(numbers.begin(), numbers.end());
  for (size_t i = 0; i < given.size(); ++i) {
    job->SetInput(static_cast<int>(inputs.size() + i), &given[i]);
  }
  std::vector<float> sums(program->outputs().size());
  for (size_t i = 0; i < sums.size(); ++i) {
    job->SetOutput(static_cast<int>(i), &sums[i]);
  }
  std::optional<TorchGeneratorStates> random;
  if (!generators_.empty()) random.emplace(generators_);
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  status = job->Compute();
  Py_END_ALLOW_THREADS;
  if (status.ok()) status = job->Discard();
  if (random.has_value()) random->Restore();
  MICA_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < measured.products.size(); ++i) {
    const QuantisedProduct& product = measured.products[i];
    const SourceLine& source = product.source;
    precision_error_.products.push_back(
        {.where = source.file == nullptr
                      ? ""
                      : absl::StrCat(*source.file, ":", source.line),
         .scope = source.scope == nullptr ? "" : *source.scope,
         .n = product.n,
         .k = product.k,
         .precision = std::string(PrecisionName(product.precision)),
         .error = VectorError::Of(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2],
                                  sums[4 * i + 3])});
  }
  return absl::OkStatus();
}

}  // namespace mica
