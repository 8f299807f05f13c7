#include "executor/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/segments.h"
#include "executor/device/exchange.h"
#include "executor/segment_run.h"
#include "framework/base/status.h"
#include "framework/tensor/size_expression.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

std::string NamesOf(const Program& program, absl::Span<const ValueId> ids) {
  auto append = [&](std::string* out, ValueId id) {
    absl::StrAppend(out, program.value(id).name);
  };
  return absl::StrJoin(ids, ", ", append);
}

// InvalidArgument if a feed is missing, or is for no input.
absl::Status CheckFeedNames(const Program& program, const NamedViews& feeds) {
  for (ValueId id : program.inputs()) {
    if (feeds.contains(program.value(id).name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("feed \"", program.value(id).name, "\" is missing: wants ",
                     program.type(id).ToString()));
  }
  for (const auto& [name, view] : feeds) {
    const ValueId id = program.FindValue(name);
    if (id != kNoValue && program.value(id).kind == ValueKind::kInput) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "feed \"", name, "\" is for no input; the program has ",
        program.inputs().empty() ? "none"
                                 : NamesOf(program, program.inputs())));
  }
  return absl::OkStatus();
}

// The sizes that a type's symbols have in a feed. Symbols that follow from
// others have none of their own.
void FindSizes(const TensorType& wanted, const TensorType& got,
               absl::flat_hash_map<std::string, int64_t>& sizes) {
  for (int i = 0; i < std::min(wanted.rank(), got.rank()); ++i) {
    if (!IsSymbol(wanted.dims[i])) continue;
    const std::string symbol = DimToString(wanted.dims[i]);
    if (!FollowsFromOthers(symbol)) sizes.try_emplace(symbol, got.dims[i]);
  }
}

// Same dtype and rank; where the Program has a number, the same number, and
// where it has a symbol, its size.
absl::Status MatchFeed(absl::string_view name, const TensorType& wanted,
                       const TensorType& got,
                       const absl::flat_hash_map<std::string, int64_t>& sizes) {
  bool fits = wanted.dtype == got.dtype && wanted.rank() == got.rank();
  for (int i = 0; fits && i < wanted.rank(); ++i) {
    if (!IsSymbol(wanted.dims[i])) {
      fits = wanted.dims[i] == got.dims[i];
      continue;
    }
    const std::string symbol = DimToString(wanted.dims[i]);
    const std::optional<int64_t> size = SizeOfSymbol(symbol, sizes);
    if (size.has_value() && *size != got.dims[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feed \"", name, "\": wants ", wanted.ToString(), " with ", symbol,
          "=", *size, " as in another feed, got ", got.ToString()));
    }
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("feed \"", name, "\": wants ",
                                                 wanted.ToString(), ", got ",
                                                 got.ToString()));
}

// Feeds whose strides the Program doesn't expect are copied in and, if it
// updates them, out.
struct FedInputs {
  std::vector<Tensor> copies;
  std::vector<std::pair<TensorView, TensorView>> copies_back;
};

absl::Status Feed(const Program& program, const NamedViews& feeds, Job& job,
                  FedInputs& fed) {
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const ValueId id = program.inputs()[i];
    const TensorView& feed = feeds.at(program.value(id).name);
    TensorView input = feed;
    if (!CheckFed("", program.type(id), feed.type).ok()) {
      MICA_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(program.type(id)));
      CopyElements(feed, copy.view());
      input = copy.view();
      fed.copies.push_back(std::move(copy));
      for (const Update& update : program.updates()) {
        if (update.target == id) fed.copies_back.emplace_back(input, feed);
      }
    }
    job.SetInput(static_cast<int>(i), input.data);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    Place place, const OpRegistry& ops, const KernelRegistry& kernels,
    PlanOptions options, std::shared_ptr<PlanCache> plans,
    MakeJobOptionsFn make_job_options) {
  if (place.kind != DeviceKind::kCpu || place.index != 0) {
    return absl::UnimplementedError(
        absl::StrCat("wants place cpu:0, got ", place.ToString()));
  }
  if (plans == nullptr) plans = std::make_shared<PlanCache>(ops, kernels);
  return std::unique_ptr<Executor>(new Executor(
      ops, std::move(options), std::move(plans), make_job_options));
}

std::unique_ptr<Executor> Executor::CreateOn(std::shared_ptr<Device> device,
                                             const OpRegistry& ops,
                                             const KernelRegistry& kernels,
                                             PlanOptions options,
                                             std::shared_ptr<PlanCache> plans) {
  if (plans == nullptr) plans = std::make_shared<PlanCache>(ops, kernels);
  std::unique_ptr<Executor> executor(new Executor(
      ops, std::move(options), std::move(plans), /*make_job_options=*/nullptr));
  executor->device_ = std::move(device);
  return executor;
}

absl::StatusOr<Program> Executor::MakeStatic(const Program& program,
                                             const NamedViews& feeds) const {
  absl::flat_hash_map<std::string, int64_t> sizes;
  for (ValueId id : program.inputs()) {
    FindSizes(program.type(id), feeds.at(program.value(id).name).type, sizes);
  }
  for (ValueId id : program.inputs()) {
    const std::string& name = program.value(id).name;
    MICA_RETURN_IF_ERROR(
        MatchFeed(name, program.type(id), feeds.at(name).type, sizes));
  }
  if (program.is_static()) return program;
  if (program.first_bounded_op() >= 0) {
    return SpecialiseKnown(program, sizes, ops_);
  }
  return Specialise(program, sizes, ops_);
}

absl::StatusOr<Executor::Prepared*> Executor::Prepare(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    absl::Span<const std::string> fetches) {
  if (IsLikeLast(program.get(), feeds, fetches)) return &prepared_.front();
  last_ = {};
  MICA_ASSIGN_OR_RETURN(Prepared * prepared,
                        PrepareAnew(program, feeds, fetches));
  last_ = {.program = program, .fetches = {fetches.begin(), fetches.end()}};
  for (const auto& [name, view] : feeds) {
    last_.feeds.emplace_back(name, view.type);
  }
  return prepared;
}

bool Executor::IsLikeLast(const Program* program, const NamedViews& feeds,
                          absl::Span<const std::string> fetches) const {
  return last_.program.get() == program && last_.fetches == fetches &&
         std::equal(feeds.begin(), feeds.end(), last_.feeds.begin(),
                    last_.feeds.end(), [](const auto& a, const auto& b) {
                      return a.first == b.first &&
                             SameShape(a.second.type, b.second) &&
                             a.second.type.is_scalar == b.second.is_scalar;
                    });
}

absl::StatusOr<Executor::Prepared*> Executor::PrepareAnew(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    absl::Span<const std::string> fetches) {
  MICA_RETURN_IF_ERROR(CheckFeedNames(*program, feeds));
  std::string key = absl::StrCat(reinterpret_cast<uintptr_t>(program.get()),
                                 ";", absl::StrJoin(fetches, ","));
  for (const auto& [name, view] : feeds) {
    TensorType type = view.type;
    type.strides.clear();
    absl::StrAppend(&key, ";", type.ToString());
  }
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    prepared_.splice(prepared_.begin(), prepared_, it->second);
    return &prepared_.front();
  }
  MICA_ASSIGN_OR_RETURN(Program fixed, MakeStatic(*program, feeds));
  if (!fetches.empty()) {
    MICA_ASSIGN_OR_RETURN(fixed, WithFetches(fixed, fetches, ops_));
  }
  Prepared prepared{.key = key, .source = program};
  prepared.fixed = std::make_shared<const Program>(std::move(fixed));
  if (prepared.fixed->first_bounded_op() >= 0) {
    if (device_ != nullptr) {
      return absl::UnimplementedError(absl::StrCat(
          "program @", program->name(), " on ", device_->place().ToString(),
          ": sizes in it depend on data"));
    }
    MICA_ASSIGN_OR_RETURN(Segments segments,
                          CutAtBoundedOp(*prepared.fixed, ops_));
    prepared.segments =
        std::make_shared<SegmentRun>(std::move(segments), [this] {
          return std::unique_ptr<Executor>(
              new Executor(ops_, options_, plans_, make_job_options_));
        });
  } else {
    MICA_ASSIGN_OR_RETURN(prepared.plan, plans_->Get(prepared.fixed, options_));
  }
  if (num_prepared() == kMaxPrepared) {
    by_key_.erase(prepared_.back().key);
    prepared_.pop_back();
  }
  prepared_.push_front(std::move(prepared));
  by_key_[std::move(key)] = prepared_.begin();
  return &prepared_.front();
}

absl::StatusOr<std::shared_ptr<const Plan>> Executor::PlanFor(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    absl::Span<const std::string> fetches) {
  MICA_ASSIGN_OR_RETURN(Prepared * prepared, Prepare(program, feeds, fetches));
  if (prepared->segments != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("program @", program->name(),
                     " has several Plans: sizes in it depend on data"));
  }
  return prepared->plan;
}

absl::StatusOr<Job*> Executor::Bind(Prepared& prepared,
                                    const NamedViews& variables) const {
  const Program& program = *prepared.fixed;
  std::vector<TensorView> bound;
  for (const Variable& variable : program.variables()) {
    const auto it = variables.find(variable.name);
    if (it == variables.end()) {
      return absl::NotFoundError(
          absl::StrCat("variable \"", variable.name, "\" has no value: wants ",
                       program.type(variable.value).ToString()));
    }
    bound.push_back(it->second);
  }
  const auto is_same = [](const TensorView& a, const TensorView& b) {
    return a.data == b.data && a.type == b.type;
  };
  if (prepared.job != nullptr &&
      std::equal(bound.begin(), bound.end(), prepared.variables.begin(),
                 is_same)) {
    return prepared.job.get();
  }
  prepared.job = nullptr;
  // Packed copies are held together with those for other sizes, and those of
  // other Programs of the same variables.
  const auto other = absl::c_find_if(
      prepared_, [](const Prepared& one) { return one.job != nullptr; });
  const Binding* like =
      other == prepared_.end() ? nullptr : &other->job->binding();
  MICA_ASSIGN_OR_RETURN(
      auto binding,
      Binding::Create(prepared.plan, bound, prepared.fixed, device_, like));
  JobOptions options = make_job_options_ == nullptr
                           ? JobOptions()
                           : make_job_options_(*prepared.plan);
  MICA_ASSIGN_OR_RETURN(prepared.job,
                        Job::Create(std::move(binding), std::move(options)));
  prepared.variables = std::move(bound);
  if (device_ != nullptr) MICA_RETURN_IF_ERROR(PlaceOnDevice(prepared));
  return prepared.job.get();
}

absl::Status Executor::PlaceOnDevice(Prepared& prepared) const {
  const Program& program = *prepared.fixed;
  prepared.inputs.clear();
  prepared.outputs.clear();
  for (ValueId id : program.inputs()) {
    MICA_ASSIGN_OR_RETURN(Tensor input,
                          Tensor::Allocate(program.type(id), device_));
    prepared.job->SetInput(static_cast<int>(prepared.inputs.size()),
                           input.data());
    prepared.inputs.push_back(std::move(input));
  }
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    const int index = static_cast<int>(i);
    MICA_ASSIGN_OR_RETURN(
        Tensor output,
        Tensor::Allocate(prepared.plan->output_type(index), device_));
    prepared.job->SetOutput(index, output.data());
    prepared.outputs.push_back(std::move(output));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Executor::RunOnDevice(
    Prepared& prepared, const NamedViews& feeds) {
  const Program& program = *prepared.fixed;
  const StreamId stream = prepared.job->device_run()->stream();
  const auto feed_of = [&](ValueId id) -> const TensorView& {
    return feeds.at(program.value(id).name);
  };
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    const ValueId id = program.inputs()[i];
    MICA_RETURN_IF_ERROR(QueueFeed(program.value(id).name, feed_of(id),
                                   prepared.inputs[i], stream));
  }
  MICA_RETURN_IF_ERROR(prepared.job->Run());
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    const ValueId id = program.inputs()[i];
    const bool is_updated = absl::c_any_of(
        program.updates(),
        [&](const Update& update) { return update.target == id; });
    if (!is_updated) continue;
    MICA_RETURN_IF_ERROR(CopyBack(prepared.inputs[i], feed_of(id), stream));
  }
  return TakeResults(prepared.outputs, device_, stream);
}

absl::StatusOr<std::vector<Tensor>> Executor::Run(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    const NamedViews& variables, absl::Span<const std::string> fetches) {
  const TraceSpan span("run", "Executor.run @", program->name());
  MICA_ASSIGN_OR_RETURN(Prepared * prepared, Prepare(program, feeds, fetches));
  if (prepared->segments != nullptr) {
    return prepared->segments->Run(feeds, variables);
  }
  MICA_ASSIGN_OR_RETURN(Job * job, Bind(*prepared, variables));
  if (device_ != nullptr) return RunOnDevice(*prepared, feeds);
  FedInputs fed;
  MICA_RETURN_IF_ERROR(Feed(*prepared->fixed, feeds, *job, fed));
  std::vector<Tensor> results;
  for (size_t i = 0; i < job->plan().program().outputs().size(); ++i) {
    const int index = static_cast<int>(i);
    MICA_ASSIGN_OR_RETURN(Tensor result,
                          Tensor::Allocate(job->plan().output_type(index)));
    job->SetOutput(index, result.data());
    results.push_back(std::move(result));
  }
  MICA_RETURN_IF_ERROR(job->Run());
  for (const auto& [from, to] : fed.copies_back) CopyElements(from, to);
  return results;
}

}  // namespace mica
