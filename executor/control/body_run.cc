#include "executor/control/body_run.h"

#include <utility>

#include "framework/base/status.h"
#include "glog/logging.h"

namespace mica {

BodyRun::BodyRun(std::shared_ptr<const Plan> plan, const Binding& binding,
                 Outcome& outcome, int num_tables)
    : plan_(std::move(plan)), binding_(binding) {
  for (const Step& step : plan_->steps()) {
    const StepLaunch launch = MakeLaunch(step, binding, outcome, instances_);
    launches_.push_back(
        {.fn = launch.fn, .state = launch.state, .first_arg = step.first_arg});
  }
  tables_.resize(num_tables);
  for (std::vector<void*>& table : tables_) {
    for (const Location& location : plan_->args()) {
      // What stays where it is.
      const bool is_constant = location.home == Home::kConstant;
      const char* data =
          is_constant
              ? static_cast<const char*>(plan_->constant(location.index)) +
                    location.offset
              : nullptr;
      table.push_back(const_cast<char*>(data));
    }
  }
}

void BodyRun::Lay(int table, const Addresses& addresses) {
  std::vector<void*>& args = tables_[table];
  for (size_t i = 0; i < args.size(); ++i) {
    const Location& location = plan_->args()[i];
    auto at = [&](void* base) {
      args[i] = static_cast<char*>(base) + location.offset;
    };
    switch (location.home) {
      case Home::kNone:
      case Home::kConstant:
        break;
      case Home::kArena:
        at(addresses.arena);
        break;
      case Home::kInput:
        at(addresses.inputs[location.index]);
        break;
      case Home::kOutput:
        at(addresses.outputs[location.index]);
        break;
      case Home::kPacked:
        at(addresses.packed[location.index]);
        break;
      case Home::kVariable:
      case Home::kFolded:
        LOG(FATAL) << "a body has no variables";
    }
  }
}

bool BodyRun::Run(int table, LaunchContext& context) const {
  void* const* args = tables_[table].data();
  for (size_t i = 0; i < launches_.size(); ++i) {
    const Launch& launch = launches_[i];
    if (!launch.fn(launch.state, args + launch.first_arg, context)) {
      return Fail(i, context);
    }
  }
  return true;
}

bool BodyRun::Fail(size_t index, LaunchContext& context) const {
  return context.Fail(Annotate(
      context.status, binding_.NameOf(*plan_, static_cast<StepId>(index))));
}

}  // namespace mica
