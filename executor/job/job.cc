#include "executor/job/job.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/plan/step_facts.h"
#include "executor/control/control_run.h"
#include "executor/job/fork.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/team_size.h"

namespace mica {
namespace {

// How kernels that a Job launches on this thread get further threads.
class JobScope {
 public:
  explicit JobScope(const Plan& plan)
      : size_(plan.team_size()),
        team_(plan.team_size() == plan.num_threads() ? nullptr
                                                     : cpu::TeamOfOne()) {}

 private:
  const cpu::TeamSize size_;
  const cpu::TeamScope team_;
};

// Whether data may make Compute() fail.
bool MayFail(const Plan& plan) {
  return absl::c_any_of(
      plan.steps().first(plan.num_compute()), [](const Step& step) {
        return step.prepared == nullptr || !step.prepared->never_fails;
      });
}

}  // namespace

class Job::Traced {
 public:
  // The steps from `first` to before `end`.
  Traced(Job& job, absl::string_view name, StepId first, StepId end) {
    if (IsTracing() && first < end) Begin(job, name, first, end);
  }
  ~Traced() {
    if (job_ != nullptr) End();
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  void Begin(Job& job, absl::string_view name, StepId first, StepId end) {
    const Plan& plan = job.plan();
    job_ = &job;
    span_.emplace("run", name, plan.program().name());
    span_->Add("steps", int64_t{end - first});
    span_->Add("arena_bytes", plan.arena_bytes());
    if (job.trace_ == nullptr) {
      job.trace_ = std::make_shared<RunTrace>(*job.binding_);
    }
    job.trace_->Begin(first, end);
    job.observers_.push_back(job.trace_);
    was_special_ = std::exchange(job.is_special_, true);
  }
  void End() {
    job_->is_special_ = was_special_;
    job_->observers_.pop_back();
    job_->trace_->End();
  }

  Job* job_ = nullptr;  // Null: nothing is traced.
  bool was_special_ = false;
  std::optional<TraceSpan> span_;
};

absl::StatusOr<std::unique_ptr<Job>> Job::Create(
    std::shared_ptr<const Binding> binding, JobOptions options) {
  const Plan& plan = binding->plan();
  TraceSpan span("analysis", "make job of @", plan.program().name());
  span.Add("arena_bytes", plan.arena_bytes());
  std::unique_ptr<Job> job(new Job);
  MICA_ASSIGN_OR_RETURN(
      job->arena_, Buffer::Allocate(plan.arena_bytes(), binding->device()));
  job->binding_ = std::move(binding);
  job->args_.resize(plan.args().size());
  job->inputs_.resize(plan.program().inputs().size());
  job->variables_.resize(plan.program().variables().size());
  job->outputs_.resize(plan.program().outputs().size());
  job->FillArgs();
  MICA_RETURN_IF_ERROR(job->MakeDeviceRun(options));
  for (const Step& step : plan.steps()) {
    const StepLaunch launch =
        MakeLaunch(step, *job->binding_, job->outcome_, job->instances_);
    job->launches_.push_back({.fn = launch.fn,
                              .state = launch.state,
                              .args = job->args_.data() + step.first_arg});
  }
  job->MakeUndo();
  job->outcome_.set_interrupt(options.interrupt);
  job->observers_ = std::move(options.observers);
  job->generation_ = ForkGeneration();
  job->may_fail_ = MayFail(plan);
  job->contexts_.resize(plan.streams().num_streams);
  if (job->device_ != nullptr) return job;
  if (plan.streams().num_streams > 1) {
    job->streams_ =
        std::make_unique<StreamRun>(plan.streams(), plan.team_size());
  } else if (plan.queue().num_workers > 1) {
    if (options.helpers == nullptr) {
      options.helpers = std::make_shared<Helpers>(plan.queue().num_workers - 1);
    }
    job->queue_ =
        std::make_unique<QueueRun>(plan.queue(), std::move(options.helpers));
    // Of the threads that sleep, one may be the one that can answer.
    job->outcome_.set_wake([queue = job->queue_.get()] { queue->WakeAll(); });
    job->contexts_.resize(job->queue_->num_workers());
  }
  if (plan.team_size() < plan.num_threads()) {
    job->is_atens_ =
        AreAtens(plan, 0, static_cast<StepId>(plan.steps().size()));
    if (!absl::c_linear_search(job->is_atens_, true)) job->is_atens_.clear();
  }
  job->is_special_ = !job->observers_.empty() || !job->is_atens_.empty();
  return job;
}

absl::Status Job::MakeDeviceRun(const JobOptions& options) {
  if (binding_->device() == nullptr) return absl::OkStatus();
  const std::string place = binding_->device()->place().ToString();
  if (!plan().undo().empty()) {
    return absl::UnimplementedError(
        absl::StrCat("on ", place,
                     " no parts of inputs and variables are written: the plan "
                     "wants PlanOptions::write_parts off"));
  }
  if (!options.observers.empty()) {
    return absl::UnimplementedError(absl::StrCat("steps on ", place,
                                                 " run without observers, got ",
                                                 options.observers.size()));
  }
  for (size_t i = 0; i < plan().steps().size(); ++i) {
    if (plan().steps()[i].control == nullptr) continue;
    return absl::UnimplementedError(
        absl::StrCat(NameOf(static_cast<StepId>(i)),
                     ": branches, loops and calls don't run on ", place));
  }
  MICA_ASSIGN_OR_RETURN(
      device_, DeviceRun::Create(binding_->device(), plan(), options.graphs));
  return absl::OkStatus();
}

void Job::MakeUndo() {
  for (const Plan::Undo& undo : plan().undo()) {
    const StepLaunch launch =
        MakeLaunch(undo.step, *binding_, outcome_, instances_);
    undo_.push_back({.fn = launch.fn,
                     .state = launch.state,
                     .args = args_.data() + undo.step.first_arg});
    Launch& save = launches_[undo.save];
    kept_.push_back(std::make_unique<KeptPart>());
    kept_.back()->fn = save.fn;
    kept_.back()->state = save.state;
    save.fn = KeptPart::Launch;
    save.state = kept_.back().get();
  }
}

void Job::FillArgs() {
  const Plan& plan = binding_->plan();
  for (size_t i = 0; i < args_.size(); ++i) {
    const Location& location = plan.args()[i];
    void** arg = &args_[i];
    const Anchor::Use use{.arg = arg, .offset = location.offset};
    switch (location.home) {
      case Home::kNone:
        break;
      case Home::kArena:
        *arg = static_cast<char*>(arena_.data()) + location.offset;
        break;
      case Home::kConstant:
        *arg = static_cast<char*>(binding_->constant(location.index)) +
               location.offset;
        break;
      case Home::kPacked:
        *arg = binding_->packed(location.index);
        break;
      case Home::kFolded:
        *arg = static_cast<char*>(binding_->folded(location.index)) +
               location.offset;
        break;
      case Home::kInput:
        inputs_[location.index].uses.push_back(use);
        break;
      case Home::kVariable:
        variables_[location.index].uses.push_back(use);
        break;
      case Home::kOutput:
        outputs_[location.index].uses.push_back(use);
        break;
    }
  }
  for (size_t i = 0; i < variables_.size(); ++i) {
    variables_[i].Set(binding_->variable(static_cast<int>(i)));
  }
}

void Job::Expect(int output, std::string bytes) {
  if (device_ != nullptr) return;
  const Plan& plan = this->plan();
  // The last one: others' results may have lain there before.
  for (StepId id = plan.num_compute(); id-- > 0;) {
    const Step& step = plan.steps()[id];
    Launch& launch = launches_[id];
    for (int i = step.num_operands; i < step.num_args; ++i) {
      const Location& place = plan.args()[step.first_arg + i];
      if (place.home != Home::kOutput || place.index != output ||
          place.offset != 0) {
        continue;
      }
      expectations_.push_back(std::make_unique<Expectation>(
          Expectation{.fn = launch.fn,
                      .state = launch.state,
                      .result = i,
                      .output = output,
                      .bytes = std::move(bytes),
                      .unexpected = &unexpected_}));
      launch.fn = Expectation::Launch;
      launch.state = expectations_.back().get();
      return;
    }
  }
}

std::string Job::NameOf(StepId id) const {
  return binding_->NameOf(plan(), id);
}

absl::Status Job::TakeError(StepId id, LaunchContext& context) const {
  return Annotate(std::exchange(context.status, absl::OkStatus()), NameOf(id));
}

absl::Status Job::LaunchStep(StepId id, LaunchContext& context) {
  const Launch& launch = launches_[id];
  if (launch.fn(launch.state, launch.args, context)) return absl::OkStatus();
  return TakeError(id, context);
}

absl::Status Job::RunStep(StepId id, int worker) {
  if (!is_special_) return LaunchStep(id, contexts_[worker]);
  for (const auto& observer : observers_) {
    absl::Status status = observer->BeforeStep(id, worker);
    // What Commit() has begun it ends: no variable is half updated.
    const bool may_fail = id < plan().num_compute();
    if (!status.ok() && may_fail) return Annotate(status, NameOf(id));
  }
  // Nothing of ours runs beside a step of ATen's.
  const bool is_atens = !is_atens_.empty() && is_atens_[id];
  const cpu::TeamSize size(is_atens && generation_ == ForkGeneration()
                               ? plan().num_threads()
                               : plan().team_size());
  MICA_RETURN_IF_ERROR(LaunchStep(id, contexts_[worker]));
  for (const auto& observer : observers_) observer->AfterStep(id, worker);
  return absl::OkStatus();
}

absl::Status Job::RunInOrder() {
  const StepId end = plan().num_compute();
  StepId id = 0;
  if (is_special_) {
    for (; id < end && !outcome_.must_end(); ++id) {
      MICA_RETURN_IF_ERROR(RunStep(id, 0));
    }
  } else {
    // What a step costs beside its kernel is all here.
    LaunchContext& context = contexts_[0];
    const Launch* launches = launches_.data();
    for (; id < end && !outcome_.must_end(); ++id) {
      const Launch& launch = launches[id];
      if (!launch.fn(launch.state, launch.args, context)) {
        return TakeError(id, context);
      }
    }
  }
  if (id == end) return absl::OkStatus();
  return Annotate(outcome_.status(), absl::StrCat("before ", NameOf(id)));
}

absl::Status Job::CheckProcess() const {
  if (generation_ == ForkGeneration()) return absl::OkStatus();
  if (streams_ == nullptr && plan().team_size() == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the process was forked after its threads were made: what runs on "
      "several streams, or on OpenMP's threads, must be made anew in the "
      "child, or run on one thread");
}

DeviceLaunch Job::LaunchOf(StepId id) const {
  const Launch& launch = launches_[id];
  const auto num_args = static_cast<size_t>(plan().steps()[id].num_args);
  return {.fn = launch.fn,
          .state = launch.state,
          .args = {launch.args, num_args},
          .step = id};
}

absl::Status Job::Begin(const std::atomic<bool>* is_cancelled) {
  outcome_.Reset();
  if (is_cancelled != nullptr && is_cancelled->load()) Cancel();
  if (!outcome_.must_end()) return absl::OkStatus();
  return Annotate(outcome_.status(), "before the first step");
}

absl::Status Job::RunOnDevice(DeviceRun::Part part,
                              const std::atomic<bool>* is_cancelled) {
  MICA_RETURN_IF_ERROR(Begin(is_cancelled));
  const TraceSpan span("run", "on a device @", plan().program().name());
  const auto launch_of = [this](StepId id) { return LaunchOf(id); };
  DeviceError error = device_->Run(part, launch_of, addresses_);
  if (error.status.ok()) return absl::OkStatus();
  const std::string place = device_->device().place().ToString();
  return Annotate(error.status, error.step < 0 ? place : NameOf(error.step));
}

absl::Status Job::Compute(const std::atomic<bool>* is_cancelled) {
  if (device_ != nullptr) {
    return RunOnDevice(DeviceRun::Part::kCompute, is_cancelled);
  }
  MICA_RETURN_IF_ERROR(CheckProcess());
  const JobScope scope(plan());
  MICA_RETURN_IF_ERROR(Begin(is_cancelled));
  unexpected_.store(-1, std::memory_order_relaxed);
  const Traced traced(*this, "run @", 0, plan().num_compute());
  for (const auto& observer : observers_) observer->BeforeRun(*this);
  auto run = [this](StepId id, int worker) { return RunStep(id, worker); };
  absl::Status status = streams_ != nullptr ? streams_->Run(run, outcome_)
                        : queue_ != nullptr ? queue_->Run(run, outcome_)
                                            : RunInOrder();
  if (!status.ok()) MICA_RETURN_IF_ERROR(Discard());
  for (const auto& observer : observers_) observer->AfterRun(status);
  return status;
}

absl::Status Job::Discard() {
  for (size_t i = 0; i < undo_.size(); ++i) {
    if (!kept_[i]->is_kept.exchange(false)) continue;
    LaunchContext context;
    const Launch& launch = undo_[i];
    if (launch.fn(launch.state, launch.args, context)) continue;
    return Annotate(std::move(context.status), plan().undo()[i].step.name);
  }
  return absl::OkStatus();
}

absl::Status Job::Commit() {
  if (device_ != nullptr) return RunOnDevice(DeviceRun::Part::kCommit, nullptr);
  for (const auto& part : kept_) part->is_kept.store(false);
  const JobScope scope(plan());
  const auto num_steps = static_cast<StepId>(plan().steps().size());
  const Traced traced(*this, "commit @", plan().num_compute(), num_steps);
  for (StepId id = plan().num_compute(); id < num_steps; ++id) {
    MICA_RETURN_IF_ERROR(RunStep(id, 0));
  }
  return absl::OkStatus();
}

absl::Status Job::Run(const std::atomic<bool>* is_cancelled) {
  if (device_ != nullptr && !may_fail_) {
    return RunOnDevice(DeviceRun::Part::kBoth, is_cancelled);
  }
  MICA_RETURN_IF_ERROR(Compute(is_cancelled));
  return Commit();
}

void Job::Cancel() { outcome_.Fail(absl::CancelledError("the run was ended")); }

}  // namespace mica
