#include "executor/prepared_program.h"

#include <algorithm>

#include "framework/base/status.h"

namespace mica {
namespace {

absl::Status PlaceOnDevice(const Program& program,
                           const std::shared_ptr<Device>& device,
                           JobWithMemory& made) {
  for (const ValueId id : program.inputs()) {
    MICA_ASSIGN_OR_RETURN(Tensor input,
                          Tensor::Allocate(program.type(id), device));
    made.job->SetInput(static_cast<int>(made.inputs.size()), input.data());
    made.inputs.push_back(std::move(input));
  }
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    const int index = static_cast<int>(i);
    MICA_ASSIGN_OR_RETURN(
        Tensor output,
        Tensor::Allocate(made.job->plan().output_type(index), device));
    made.job->SetOutput(index, output.data());
    made.outputs.push_back(std::move(output));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PreparedProgram::Make(const MakeFn& make) {
  const MutexLock making(&making_);
  {
    const MutexLock lock(&mutex_);
    if (is_made_) return absl::OkStatus();
  }
  MICA_ASSIGN_OR_RETURN(Made made, make());
  const MutexLock lock(&mutex_);
  made_ = std::move(made);
  is_made_ = true;
  return absl::OkStatus();
}

bool PreparedProgram::IsBoundTo(absl::Span<const TensorView> variables) const {
  return binding_ != nullptr &&
         std::equal(variables.begin(), variables.end(), variables_.begin(),
                    variables_.end(),
                    [](const TensorView& a, const TensorView& b) {
                      return a.data == b.data && a.type == b.type;
                    });
}

JobWithMemory PreparedProgram::TakeFree(
    absl::Span<const TensorView> variables) {
  const MutexLock lock(&mutex_);
  JobWithMemory job;
  if (IsBoundTo(variables) && !free_.empty()) {
    job = std::move(free_.back());
    free_.pop_back();
  }
  return job;
}

absl::StatusOr<std::shared_ptr<const Binding>> PreparedProgram::Bind(
    const std::vector<TensorView>& variables,
    const std::shared_ptr<Device>& device,
    absl::FunctionRef<LikeBinding()> like) {
  // Whoever comes while variables are packed wants them packed, too.
  const MutexLock making(&making_);
  {
    const MutexLock lock(&mutex_);
    if (IsBoundTo(variables)) return binding_;
  }
  Unbind();
  const LikeBinding other = like();
  MICA_ASSIGN_OR_RETURN(
      auto binding,
      Binding::Create(made().plan, variables, made().fixed, device,
                      other.binding.get(), other.is_current));
  const MutexLock lock(&mutex_);
  binding_ = binding;
  variables_ = variables;
  return binding;
}

absl::StatusOr<JobWithMemory> PreparedProgram::MakeJob(
    const std::vector<TensorView>& variables,
    const std::shared_ptr<Device>& device, const JobOptions& options,
    absl::FunctionRef<LikeBinding()> like) {
  MICA_ASSIGN_OR_RETURN(auto binding, Bind(variables, device, like));
  JobWithMemory job;
  MICA_ASSIGN_OR_RETURN(job.job, Job::Create(std::move(binding), options));
  if (device != nullptr) {
    MICA_RETURN_IF_ERROR(PlaceOnDevice(*made().fixed, device, job));
  }
  return job;
}

void PreparedProgram::GiveBack(JobWithMemory job) {
  const MutexLock lock(&mutex_);
  if (&job.job->binding() != binding_.get()) return;
  free_.push_back(std::move(job));
}

void PreparedProgram::Unbind() {
  std::vector<JobWithMemory> jobs;
  std::shared_ptr<const Binding> binding;  // Freed behind the lock.
  const MutexLock lock(&mutex_);
  jobs.swap(free_);
  binding.swap(binding_);
}

void PreparedProgram::DropFree() {
  std::vector<JobWithMemory> jobs;
  const MutexLock lock(&mutex_);
  jobs.swap(free_);
}

std::shared_ptr<const Binding> PreparedProgram::binding() const {
  const MutexLock lock(&mutex_);
  return binding_;
}

}  // namespace mica
