#include "analysis/schedule/pipeline_plan.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {

class PipelinePlanner {
 public:
  PipelinePlanner(std::vector<StagePlan> stages,
                  const PipelinePlanOptions& options)
      : stages_(std::move(stages)), options_(options) {}

  absl::StatusOr<std::shared_ptr<const PipelinePlan>> Build(
      const Schedule& schedule) {
    MICA_ASSIGN_OR_RETURN(JobGraph graph, JobGraph::Build(schedule));
    plan_.graph_ = std::make_shared<const JobGraph>(std::move(graph));
    MICA_RETURN_IF_ERROR(AddStages());
    MICA_RETURN_IF_ERROR(AddOutputs());
    MICA_RETURN_IF_ERROR(ForEachStage(&PipelinePlanner::AddInputs));
    MICA_RETURN_IF_ERROR(ForEachStage(&PipelinePlanner::AddVariables));
    MICA_RETURN_IF_ERROR(ForEachStage(&PipelinePlanner::AddWrites));
    MICA_RETURN_IF_ERROR(CheckVariables());
    MICA_ASSIGN_OR_RETURN(ValuePlan values,
                          ValuePlan::Build(*plan_.graph_, plan_.values_));
    plan_.value_plan_ = std::make_shared<const ValuePlan>(std::move(values));
    return std::shared_ptr<const PipelinePlan>(
        new PipelinePlan(std::move(plan_)));
  }

 private:
  using Stage = PipelinePlan::Stage;
  using Port = PipelinePlan::Port;
  using Feed = PipelinePlan::Feed;
  using SharedVariable = PipelinePlan::SharedVariable;

  // Who uses a variable, by stage index.
  struct Uses {
    std::vector<int> readers;  // Writers too.
    std::vector<int> writers;
  };

  absl::Status ForEachStage(absl::Status (PipelinePlanner::*add)(int)) {
    for (int i = 0; i < static_cast<int>(plan_.stages_.size()); ++i) {
      MICA_RETURN_IF_ERROR(
          Annotate((this->*add)(i), Describe(plan_.stages_[i].jobs)));
    }
    return absl::OkStatus();
  }

  absl::Status AddStages() {
    for (StagePlan& given : stages_) {
      const std::string name = Describe(given.jobs);
      if (FindStage(given.jobs) >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, " has two Programs"));
      }
      if (!given.plan->packed().empty() || !given.plan->folds().empty()) {
        return absl::UnimplementedError(
            absl::StrCat(name, ": a Plan of frozen variables in a Schedule"));
      }
      const Program& planned = given.plan->program();
      if (planned.inputs().size() != given.program->inputs().size() ||
          planned.outputs().size() != given.program->outputs().size() ||
          planned.variables().size() != given.program->variables().size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": the Plan is of another Program than @",
                         given.program->name()));
      }
      plan_.stages_.push_back({.jobs = given.jobs,
                               .program = std::move(given.program),
                               .plan = std::move(given.plan)});
    }
    const JobGraph& graph = *plan_.graph_;
    std::vector<bool> is_run(plan_.stages_.size(), false);
    for (JobId id = 0; id < graph.num_jobs(); ++id) {
      const JobClass jobs = {graph.job(id).type, graph.job(id).stage};
      const int index = FindStage(jobs);
      if (index < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(Describe(jobs), " has no Program"));
      }
      is_run[index] = true;
      plan_.stage_of_job_.push_back(index);
    }
    for (size_t i = 0; i < is_run.size(); ++i) {
      if (is_run[i]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("no Job of the Schedule runs the Program of ",
                       Describe(plan_.stages_[i].jobs)));
    }
    return absl::OkStatus();
  }

  int FindStage(const JobClass& jobs) const {
    for (size_t i = 0; i < plan_.stages_.size(); ++i) {
      if (plan_.stages_[i].jobs == jobs) return static_cast<int>(i);
    }
    return -1;
  }

  // Every output is a value; those that are fetched go to the caller besides,
  // at the place where readers find them.
  absl::Status AddOutputs() {
    MICA_RETURN_IF_ERROR(ForEachStage(&PipelinePlanner::AddOutputsOf));
    for (size_t i = 0; i < options_.fetches.size(); ++i) {
      const auto it = outputs_.find(options_.fetches[i]);
      if (it == outputs_.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "fetch \"", options_.fetches[i], "\" is what no Job returns"));
      }
      const auto [stage, output] = it->second;
      Port& port = plan_.stages_[stage].outputs[output];
      if (port.fetch >= 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "fetch \"", options_.fetches[i], "\" is asked for twice"));
      }
      port.fetch = static_cast<int>(i);
      plan_.fetches_.push_back(plan_.stages_[stage].plan->output_type(output));
    }
    return ForEachStage(&PipelinePlanner::CheckOutputsOf);
  }

  absl::Status CheckOutputsOf(int index) {
    const Stage& stage = plan_.stages_[index];
    for (size_t i = 0; i < stage.outputs.size(); ++i) {
      if (stage.jobs.type != JobType::kUpdate) continue;
      if (stage.outputs[i].fetch >= 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("an update can't return %",
                       stage.program->value(stage.program->outputs()[i]).name,
                       ", which is no fetch"));
    }
    return absl::OkStatus();
  }

  absl::Status AddOutputsOf(int index) {
    Stage& stage = plan_.stages_[index];
    const Program& program = *stage.program;
    for (size_t i = 0; i < program.outputs().size(); ++i) {
      const std::string& name = program.value(program.outputs()[i]).name;
      const auto [it, is_new] = outputs_.try_emplace(
          name, std::make_pair(index, static_cast<int>(i)));
      if (!is_new) {
        return absl::InvalidArgumentError(absl::StrCat(
            "returns %", name, ", which ",
            Describe(plan_.stages_[it->second.first].jobs), " returns too"));
      }
      const TensorType type = stage.plan->output_type(static_cast<int>(i));
      stage.outputs.push_back(
          {.value = static_cast<int>(plan_.values_.size())});
      plan_.values_.push_back(
          {.name = name, .bytes = type.extent_bytes(), .producer = stage.jobs});
    }
    return absl::OkStatus();
  }

  absl::Status AddInputs(int index) {
    Stage& stage = plan_.stages_[index];
    const Program& program = *stage.program;
    for (const ValueId id : program.inputs()) {
      const std::string& name = program.value(id).name;
      const TensorType& type = program.type(id);
      if (absl::c_any_of(program.updates(),
                         [id](const Update& u) { return u.target == id; })) {
        return absl::InvalidArgumentError(
            absl::StrCat("writes its input %", name));
      }
      const auto it = outputs_.find(name);
      if (it == outputs_.end()) {
        MICA_ASSIGN_OR_RETURN(Port port, AddFeed(stage.jobs, name, type));
        stage.inputs.push_back(port);
        continue;
      }
      const auto [from, output] = it->second;
      const TensorType got = plan_.stages_[from].plan->output_type(output);
      if (!(got == type)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "%", name, ": wants ", type.ToString(), ", but ",
            Describe(plan_.stages_[from].jobs), " returns ", got.ToString()));
      }
      const int value = plan_.stages_[from].outputs[output].value;
      plan_.values_[value].readers.push_back(stage.jobs);
      stage.inputs.push_back({.value = value});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Port> AddFeed(const JobClass& jobs, const std::string& name,
                               const TensorType& type) {
    std::vector<Feed>& feeds =
        IsForAllMicroBatches(jobs.type) ? plan_.update_feeds_ : plan_.feeds_;
    const auto it = absl::c_find_if(
        feeds, [&](const Feed& feed) { return feed.name == name; });
    const Port port = {.feed = static_cast<int>(it - feeds.begin())};
    if (it == feeds.end()) {
      feeds.push_back({.name = name, .type = type});
    } else if (!(it->type == type)) {
      return absl::InvalidArgumentError(
          absl::StrCat("feed \"", name, "\": wants ", type.ToString(),
                       ", another Job wants ", it->type.ToString()));
    }
    return port;
  }

  absl::Status AddVariables(int index) {
    Stage& stage = plan_.stages_[index];
    const Program& program = *stage.program;
    for (const Variable& variable : program.variables()) {
      const TensorType& type = program.type(variable.value);
      const auto [it, is_new] = variable_indices_.try_emplace(
          variable.name, static_cast<int>(plan_.variables_.size()));
      if (is_new) {
        plan_.variables_.push_back({.name = variable.name, .type = type});
        uses_.emplace_back();
      }
      const SharedVariable& shared = plan_.variables_[it->second];
      if (!(shared.type == type)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "variable \"", variable.name, "\": wants ", type.ToString(),
            ", another Job wants ", shared.type.ToString()));
      }
      stage.variables.push_back(it->second);
      uses_[it->second].readers.push_back(index);
    }
    return absl::OkStatus();
  }

  absl::Status AddWrites(int index) {
    const Stage& stage = plan_.stages_[index];
    const Program& program = *stage.program;
    for (const Update& update : program.updates()) {
      const int variable = stage.variables[program.value(update.target).index];
      uses_[variable].writers.push_back(index);
      if (stage.jobs.type != JobType::kUpdate) {
        plan_.variables_[variable].is_written = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckVariables() {
    for (const std::string& name : options_.accumulators) {
      const auto it = variable_indices_.find(name);
      if (it == variable_indices_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("accumulator \"", name, "\" is no Job's variable"));
      }
      SharedVariable& variable = plan_.variables_[it->second];
      if (!variable.type.is_dense() || variable.type.is_scalar) {
        return absl::InvalidArgumentError(
            absl::StrCat("accumulator \"", name, "\" is ",
                         variable.type.ToString(), ", no dense tensor"));
      }
      variable.is_accumulator = true;
    }
    for (size_t i = 0; i < uses_.size(); ++i) {
      MICA_RETURN_IF_ERROR(Annotate(
          CheckWriters(uses_[i]),
          absl::StrCat("variable \"", plan_.variables_[i].name, "\"")));
    }
    return absl::OkStatus();
  }

  absl::Status CheckWriters(const Uses& uses) const {
    for (const int writer : uses.writers) {
      const JobClass& writes = plan_.stages_[writer].jobs;
      for (const int reader : uses.readers) {
        if (reader == writer) continue;
        const JobClass& reads = plan_.stages_[reader].jobs;
        // Updates write when no other Job reads any more.
        if (writes.type == JobType::kUpdate && reads.type != writes.type) {
          continue;
        }
        const int from = plan_.graph_->device_of_stage()[writes.stage];
        const int to = plan_.graph_->device_of_stage()[reads.stage];
        if (from != to) {
          return absl::InvalidArgumentError(
              absl::StrCat(Describe(writes), " writes it on device ", from,
                           ", ", Describe(reads), " uses it on device ", to));
        }
        if (writes.type == JobType::kUpdate && reads.type == writes.type) {
          return absl::InvalidArgumentError(absl::StrCat(
              Describe(writes), " writes it, ", Describe(reads), " uses it"));
        }
      }
    }
    return absl::OkStatus();
  }

  std::vector<StagePlan> stages_;
  const PipelinePlanOptions& options_;
  PipelinePlan plan_;
  // By name: which output of which of plan_.stages_.
  absl::flat_hash_map<std::string, std::pair<int, int>> outputs_;
  absl::flat_hash_map<std::string, int> variable_indices_;
  std::vector<Uses> uses_;  // By variable.
};

absl::StatusOr<std::shared_ptr<const PipelinePlan>> PipelinePlan::Build(
    const Schedule& schedule, std::vector<StagePlan> stages,
    const PipelinePlanOptions& options) {
  return PipelinePlanner(std::move(stages), options).Build(schedule);
}

}  // namespace mica
