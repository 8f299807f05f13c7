#include "tools/train/runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/plan/default_plans.h"
#include "analysis/plan/plan.h"
#include "executor/binding/binding.h"
#include "framework/base/status.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {

namespace {

// What all steps of this process are planned through.
PlanCache& Plans() {
  static const auto& plans =
      *new std::shared_ptr<PlanCache>(MakeDefaultPlans(AllOps(), AllKernels()));
  return *plans;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> Runner::Create(
    std::string what, std::shared_ptr<const Program> program,
    std::vector<Tensor> variables, int num_threads) {
  const absl::StatusOr<std::shared_ptr<const Plan>> plan =
      Plans().Get(program, {.num_threads = num_threads});
  if (!plan.ok()) return Annotate(plan.status(), what);
  std::vector<TensorView> views;
  for (const Tensor& variable : variables) views.push_back(variable.view());
  auto binding = Binding::Create(*plan, views, program);
  if (!binding.ok()) return Annotate(binding.status(), what);

  std::unique_ptr<Runner> runner(new Runner);
  MICA_ASSIGN_OR_RETURN(runner->job_, Job::Create(*std::move(binding)));
  for (size_t i = 0; i < program->inputs().size(); ++i) {
    MICA_ASSIGN_OR_RETURN(
        Tensor tensor, Tensor::Allocate(program->type(program->inputs()[i])));
    runner->job_->SetInput(static_cast<int>(i), tensor.data());
    runner->inputs_.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < program->outputs().size(); ++i) {
    const int index = static_cast<int>(i);
    MICA_ASSIGN_OR_RETURN(Tensor tensor,
                          Tensor::Allocate((*plan)->output_type(index)));
    runner->job_->SetOutput(index, tensor.data());
    runner->outputs_.push_back(std::move(tensor));
  }
  runner->what_ = std::move(what);
  runner->program_ = std::move(program);
  runner->variables_ = std::move(variables);
  return runner;
}

absl::Status Runner::ReadFrom(const Dataset& data,
                              const std::vector<std::string>& except) {
  feeds_.clear();
  batch_size_ = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = program_->value(program_->inputs()[i]).name;
    if (std::find(except.begin(), except.end(), name) != except.end()) continue;
    const TensorType& type = inputs_[i].type();
    if (type.is_scalar || type.rank() == 0 || type.dims[0] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what_, ": input \"", name, "\", ", type.ToString(),
                       ", is neither a batch of samples nor the rate"));
    }
    if (batch_size_ != 0 && type.dims[0] != batch_size_) {
      return absl::InvalidArgumentError(
          absl::StrCat(what_, ": input \"", name, "\", ", type.ToString(),
                       ", where another has ", batch_size_, " rows"));
    }
    batch_size_ = type.dims[0];
    MICA_RETURN_IF_ERROR(data.CheckBatch(name, type));
    feeds_.push_back({.field = data.Find(name), .input = static_cast<int>(i)});
  }
  if (feeds_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what_, ": the Program has no input for samples"));
  }
  return absl::OkStatus();
}

void Runner::FillBatch(absl::Span<const int64_t> rows) {
  for (const Feed& feed : feeds_) {
    CopyRows(*feed.field, rows, inputs_[feed.input].data());
  }
}

}  // namespace mica
