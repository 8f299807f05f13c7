#include "executor/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/segments.h"
#include "executor/device/exchange.h"
#include "executor/segment_run.h"
#include "framework/base/status.h"
#include "framework/ir/updates.h"
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

// The values of the Program's variables, in its order.
absl::StatusOr<std::vector<TensorView>> VariablesOf(
    const Program& program, const NamedViews& variables) {
  std::vector<TensorView> views;
  views.reserve(program.variables().size());
  for (const Variable& variable : program.variables()) {
    const auto it = variables.find(variable.name);
    if (it == variables.end()) {
      return absl::NotFoundError(
          absl::StrCat("variable \"", variable.name, "\" has no value: wants ",
                       program.type(variable.value).ToString()));
    }
    views.push_back(it->second);
  }
  return views;
}

int64_t NanosecondsSince(absl::Time start) {
  return absl::ToInt64Nanoseconds(absl::Now() - start);
}

}  // namespace

// Its Job is given back, or freed, before the turn ends, so that whoever waits
// for the turn finds the Job, or its memory.
class Executor::Turn {
 public:
  explicit Turn(Executor& executor) : executor_(executor) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // To be called once, at the end.
  void End(bool is_ok) {
    if (JobWithMemory mine = std::move(job); mine.job != nullptr) {
      prepared->GiveBack(std::move(mine));
    }
    const MutexLock lock(&executor_.mutex_);
    ExecutorStats& stats = executor_.stats_;
    ++(is_ok ? stats.runs : stats.failures);
    stats.run_nanoseconds += run_nanoseconds;
    if (prepared != nullptr) --stats.running;
  }

  std::shared_ptr<PreparedProgram> prepared;  // Null: it hasn't begun.
  JobWithMemory job;
  int64_t run_nanoseconds = 0;

 private:
  Executor& executor_;
};

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    Place place, const OpRegistry& ops, const KernelRegistry& kernels,
    PlanOptions options, std::shared_ptr<PlanCache> plans,
    MakeJobOptionsFn make_job_options, ExecutorLimits limits) {
  if (place.kind != DeviceKind::kCpu || place.index != 0) {
    return absl::UnimplementedError(
        absl::StrCat("wants place cpu:0, got ", place.ToString()));
  }
  if (limits.max_prepared < 1 || limits.max_runs < 0 ||
      limits.max_arena_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "limits: wants max_prepared of 1 or more, others of 0 or more; got ",
        limits.max_prepared, ", max_runs ", limits.max_runs,
        ", max_arena_bytes ", limits.max_arena_bytes));
  }
  if (plans == nullptr) plans = std::make_shared<PlanCache>(ops, kernels);
  return std::unique_ptr<Executor>(
      new Executor(ops, std::move(options), std::move(plans),
                   std::move(make_job_options), limits));
}

std::unique_ptr<Executor> Executor::CreateOn(std::shared_ptr<Device> device,
                                             const OpRegistry& ops,
                                             const KernelRegistry& kernels,
                                             PlanOptions options,
                                             std::shared_ptr<PlanCache> plans) {
  if (plans == nullptr) plans = std::make_shared<PlanCache>(ops, kernels);
  std::unique_ptr<Executor> executor(
      new Executor(ops, std::move(options), std::move(plans),
                   /*make_job_options=*/nullptr, /*limits=*/{}));
  executor->device_ = std::move(device);
  return executor;
}

int Executor::num_prepared() const {
  const MutexLock lock(&mutex_);
  return static_cast<int>(prepared_.size());
}

ExecutorStats Executor::stats() const {
  const MutexLock lock(&mutex_);
  ExecutorStats stats = stats_;
  stats.prepared = static_cast<int64_t>(prepared_.size());
  stats.jobs = arenas_->jobs;
  stats.arena_bytes = arenas_->bytes;
  return stats;
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

absl::StatusOr<std::shared_ptr<PreparedProgram>> Executor::Prepare(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    absl::Span<const std::string> fetches) {
  {
    const MutexLock lock(&mutex_);
    if (IsLikeLast(program.get(), feeds, fetches)) return last_.prepared;
  }
  MICA_ASSIGN_OR_RETURN(auto prepared, PrepareByKey(program, feeds, fetches));
  LastCall last = {.program = program,
                   .fetches = {fetches.begin(), fetches.end()},
                   .prepared = prepared};
  for (const auto& [name, view] : feeds) {
    last.feeds.emplace_back(name, view.type);
  }
  const MutexLock lock(&mutex_);
  // Another thread may have been quicker: the last is the first of the list.
  if (prepared_.empty() || prepared_.front() != prepared) last = {};
  std::swap(last_, last);
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

absl::StatusOr<std::shared_ptr<PreparedProgram>> Executor::PrepareByKey(
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
  std::shared_ptr<PreparedProgram> prepared = FindOrAdd(key, program);
  const absl::Status status =
      prepared->Make([&] { return MakeOf(*program, feeds, fetches); });
  if (status.ok()) return prepared;
  Forget(*prepared);
  return status;
}

std::shared_ptr<PreparedProgram> Executor::FindOrAdd(
    const std::string& key, const std::shared_ptr<const Program>& program) {
  std::shared_ptr<PreparedProgram> forgotten;  // Freed without the lock.
  const MutexLock lock(&mutex_);
  last_ = {};
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    prepared_.splice(prepared_.begin(), prepared_, it->second);
    return prepared_.front();
  }
  if (static_cast<int>(prepared_.size()) >= limits_.max_prepared) {
    forgotten = std::move(prepared_.back());
    by_key_.erase(forgotten->key());
    prepared_.pop_back();
  }
  prepared_.push_front(std::make_shared<PreparedProgram>(key, program));
  by_key_[key] = prepared_.begin();
  return prepared_.front();
}

void Executor::Forget(const PreparedProgram& prepared) {
  const MutexLock lock(&mutex_);
  const auto it = by_key_.find(prepared.key());
  if (it == by_key_.end() || it->second->get() != &prepared) return;
  last_ = {};
  prepared_.erase(it->second);
  by_key_.erase(it);
}

absl::StatusOr<PreparedProgram::Made> Executor::MakeOf(
    const Program& program, const NamedViews& feeds,
    absl::Span<const std::string> fetches) const {
  MICA_ASSIGN_OR_RETURN(Program fixed, MakeStatic(program, feeds));
  if (!fetches.empty()) {
    MICA_ASSIGN_OR_RETURN(fixed, WithFetches(fixed, fetches, ops_));
  }
  PreparedProgram::Made made;
  made.fixed = std::make_shared<const Program>(std::move(fixed));
  if (made.fixed->first_bounded_op() < 0) {
    MICA_ASSIGN_OR_RETURN(made.plan, plans_->Get(made.fixed, options_));
    return made;
  }
  if (device_ != nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "program @", program.name(), " on ", device_->place().ToString(),
        ": sizes in it depend on data"));
  }
  MICA_ASSIGN_OR_RETURN(Segments segments, CutAtBoundedOp(*made.fixed, ops_));
  made.segments = std::make_shared<SegmentRun>(std::move(segments), [this] {
    return std::unique_ptr<Executor>(
        new Executor(ops_, options_, plans_, make_job_options_, limits_));
  });
  return made;
}

absl::StatusOr<std::shared_ptr<const Plan>> Executor::PlanFor(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    absl::Span<const std::string> fetches) {
  MICA_ASSIGN_OR_RETURN(const auto prepared, Prepare(program, feeds, fetches));
  if (prepared->made().segments != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("program @", program->name(),
                     " has several Plans: sizes in it depend on data"));
  }
  return prepared->made().plan;
}

LikeBinding Executor::FindLike(const PreparedProgram& prepared) const {
  const MutexLock lock(&mutex_);
  LikeBinding found;
  for (const auto& other : prepared_) {
    auto binding = other->binding();
    if (binding == nullptr) continue;
    const bool is_same = other->source() == prepared.source();
    if (is_same || found.binding == nullptr) {
      found = {.binding = std::move(binding), .is_current = is_same};
    }
    if (is_same) break;
  }
  return found;
}

std::shared_ptr<void> Executor::ReserveArena(int64_t bytes) {
  const int64_t limit = limits_.max_arena_bytes;
  const auto has_room = [&] {
    return limit == 0 || arenas_->bytes + bytes <= limit;
  };
  for (auto it = prepared_.rbegin(); !has_room() && it != prepared_.rend();
       ++it) {
    (*it)->DropFree();
  }
  if (!has_room()) return nullptr;
  ++arenas_->jobs;
  arenas_->bytes += bytes;
  return {arenas_.get(), [arenas = arenas_, bytes](void*) {
            --arenas->jobs;
            arenas->bytes -= bytes;
          }};
}

absl::Status Executor::Begin(const std::shared_ptr<PreparedProgram>& prepared,
                             const std::vector<TensorView>& variables,
                             const RunHandle* handle, Turn& turn) {
  const Plan& plan = *prepared->made().plan;
  absl::Status status;
  std::optional<absl::Time> start;
  {
    const MutexLock lock(&mutex_);
    mutex_.Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (handle != nullptr && handle->is_cancelled()) {
        status = absl::CancelledError("the run was ended before it began");
        return true;
      }
      const bool has_turn =
          limits_.max_runs == 0 || stats_.running < limits_.max_runs;
      if (has_turn) turn.job = prepared->TakeFree(variables);
      if (has_turn && turn.job.job == nullptr) {
        turn.job.arena_share = ReserveArena(plan.arena_bytes());
      }
      if (turn.job.arena_share != nullptr) return true;
      if (has_turn && stats_.running == 0) {
        status = absl::ResourceExhaustedError(absl::StrCat(
            "program @", plan.program().name(), " needs an arena of ",
            plan.arena_bytes(), " bytes; max_arena_bytes is ",
            limits_.max_arena_bytes));
        return true;
      }
      if (!start.has_value()) start = absl::Now();
      return false;
    });
    if (start.has_value()) stats_.wait_nanoseconds += NanosecondsSince(*start);
    if (!status.ok()) return status;
    ++stats_.running;
  }
  turn.prepared = prepared;
  if (turn.job.job != nullptr) return absl::OkStatus();
  const JobOptions options =
      make_job_options_ == nullptr ? JobOptions() : make_job_options_(plan);
  // Packed copies are held together with those for other sizes, and those of
  // other Programs of the same variables.
  MICA_ASSIGN_OR_RETURN(JobWithMemory made,
                        prepared->MakeJob(variables, device_, options,
                                          [&] { return FindLike(*prepared); }));
  made.arena_share = std::move(turn.job.arena_share);
  turn.job = std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Executor::RunOnHost(
    const PreparedProgram& prepared, const NamedViews& feeds, Job& job,
    RunHandle* handle) const {
  FedInputs fed;
  MICA_RETURN_IF_ERROR(Feed(*prepared.made().fixed, feeds, job, fed));
  std::vector<Tensor> results;
  for (size_t i = 0; i < job.plan().program().outputs().size(); ++i) {
    const int index = static_cast<int>(i);
    MICA_ASSIGN_OR_RETURN(Tensor result,
                          Tensor::Allocate(job.plan().output_type(index)));
    job.SetOutput(index, result.data());
    results.push_back(std::move(result));
  }
  MICA_RETURN_IF_ERROR(handle != nullptr ? handle->Run(job) : job.Run());
  for (const auto& [from, to] : fed.copies_back) CopyElements(from, to);
  return results;
}

absl::StatusOr<std::vector<Tensor>> Executor::RunOnDevice(
    const PreparedProgram& prepared, const NamedViews& feeds,
    const JobWithMemory& job, RunHandle* handle) const {
  const Program& program = *prepared.made().fixed;
  const StreamId stream = job.job->device_run()->stream();
  const auto feed_of = [&](ValueId id) -> const TensorView& {
    return feeds.at(program.value(id).name);
  };
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    const ValueId id = program.inputs()[i];
    MICA_RETURN_IF_ERROR(
        QueueFeed(program.value(id).name, feed_of(id), job.inputs[i], stream));
  }
  MICA_RETURN_IF_ERROR(handle != nullptr ? handle->Run(*job.job)
                                         : job.job->Run());
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    const ValueId id = program.inputs()[i];
    const bool is_updated = absl::c_any_of(
        program.updates(),
        [&](const Update& update) { return update.target == id; });
    if (!is_updated) continue;
    MICA_RETURN_IF_ERROR(CopyBack(job.inputs[i], feed_of(id), stream));
  }
  return TakeResults(job.outputs, device_, stream);
}

absl::StatusOr<std::vector<Tensor>> Executor::RunPrepared(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    const NamedViews& variables, absl::Span<const std::string> fetches,
    RunHandle* handle, Turn& turn) {
  MICA_ASSIGN_OR_RETURN(const auto prepared, Prepare(program, feeds, fetches));
  const Program& fixed = *prepared->made().fixed;
  std::shared_lock reads(variables_mutex_, std::defer_lock);
  std::unique_lock writes(variables_mutex_, std::defer_lock);
  const auto lock_variables = [&] {
    FirstUpdatedVariable(fixed) != kNoValue ? writes.lock() : reads.lock();
  };
  if (prepared->made().segments != nullptr) {
    lock_variables();
    return prepared->made().segments->Run(feeds, variables, handle);
  }
  MICA_ASSIGN_OR_RETURN(const std::vector<TensorView> views,
                        VariablesOf(fixed, variables));
  MICA_RETURN_IF_ERROR(Begin(prepared, views, handle, turn));
  lock_variables();
  const absl::Time start = absl::Now();
  auto results = device_ != nullptr
                     ? RunOnDevice(*prepared, feeds, turn.job, handle)
                     : RunOnHost(*prepared, feeds, *turn.job.job, handle);
  turn.run_nanoseconds = NanosecondsSince(start);
  return results;
}

absl::StatusOr<std::vector<Tensor>> Executor::Run(
    const std::shared_ptr<const Program>& program, const NamedViews& feeds,
    const NamedViews& variables, absl::Span<const std::string> fetches,
    RunHandle* handle) {
  const TraceSpan span("run", "Executor.run @", program->name());
  Turn turn(*this);
  auto results = RunPrepared(program, feeds, variables, fetches, handle, turn);
  turn.End(results.ok());
  return results;
}

}  // namespace mica
