// A Schedule whose Jobs have Plans, and how they hand each other values.

#ifndef MICA_ANALYSIS_SCHEDULE_PIPELINE_PLAN_H_
#define MICA_ANALYSIS_SCHEDULE_PIPELINE_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/value_plan.h"
#include "framework/schedule/schedule.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// What all Jobs of one class run: a Program, which names its inputs, outputs
// and variables, and the Plan of it or of one that is equal but for names.
struct StagePlan {
  JobClass jobs;
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;
};

struct PipelinePlanOptions {
  // Values that the caller gets of each micro-batch, by name; those of Jobs for
  // all micro-batches are the same for each.
  std::vector<std::string> fetches;
  // Variables that are the Schedule's own: sums of gradients over the
  // micro-batches. At the start of each run they are zero.
  std::vector<std::string> accumulators;
};

// Joins a Schedule with the Plans of its stages, by name: a Job's input reads
// what a Job of the same micro-batch, or for an update a reducing Job, returned
// under the same name, or else a feed, of the micro-batch or, for Jobs of all
// of them, of the run.
//
// All is decided here: what each Job reads and writes and where the values
// between Jobs lie. Immutable and thread-safe.
class PipelinePlan {
 public:
  // Where an input comes from or an output goes to: one of these, or none.
  struct Port {
    int value = -1;  // Index in values().
    int feed = -1;   // Index in feeds(), or in update_feeds() of a Job that is
                     // for all micro-batches.
    int fetch = -1;  // Index in fetches(); of the outputs.
  };
  struct Stage {
    JobClass jobs;
    std::shared_ptr<const Program> program;
    std::shared_ptr<const Plan> plan;
    std::vector<Port> inputs;    // In the order of the Program's.
    std::vector<Port> outputs;   // Likewise.
    std::vector<int> variables;  // Likewise; indices in variables().
  };
  struct Feed {
    std::string name;
    TensorType type;
  };
  struct SharedVariable {
    std::string name;
    TensorType type;
    // Starts each run as zero, and is no variable of the caller's.
    bool is_accumulator = false;
    // A Job that is no update writes it: the run works on a copy.
    bool is_written = false;
  };

  // InvalidArgument as JobGraph::Build() and ValuePlan::Build(), and where
  // - a class of Jobs has no Plan, two, or one that the Schedule doesn't run;
  // - two classes return a value of one name, or a fetch or an accumulator has
  //   a name that nothing has;
  // - a value, feed or variable has two types;
  // - a variable is written on one device and used on another, but by an update
  //   for Jobs that are none, or two updates write it, or one uses what the
  //   other writes;
  // - a Program writes an input, an update returns what isn't fetched, or a
  //   Plan is for another number of inputs, outputs or variables than its
  //   Program has.
  // Unimplemented for Plans of frozen variables. Each names the class.
  static absl::StatusOr<std::shared_ptr<const PipelinePlan>> Build(
      const Schedule& schedule, std::vector<StagePlan> stages,
      const PipelinePlanOptions& options);

  const JobGraph& graph() const { return *graph_; }
  // What a Job runs.
  const Stage& stage(JobId id) const { return stages_[stage_of_job_[id]]; }
  int stage_index(JobId id) const { return stage_of_job_[id]; }
  absl::Span<const Stage> stages() const { return stages_; }

  absl::Span<const ScheduleValue> values() const { return values_; }
  const ValuePlan& value_plan() const { return *value_plan_; }
  absl::Span<const Feed> feeds() const { return feeds_; }
  absl::Span<const Feed> update_feeds() const { return update_feeds_; }
  absl::Span<const SharedVariable> variables() const { return variables_; }
  // Types of the values that the caller gets, in the order asked for.
  absl::Span<const TensorType> fetches() const { return fetches_; }

 private:
  friend class PipelinePlanner;
  PipelinePlan() = default;

  std::shared_ptr<const JobGraph> graph_;
  std::vector<Stage> stages_;
  std::vector<int> stage_of_job_;
  std::vector<ScheduleValue> values_;
  std::shared_ptr<const ValuePlan> value_plan_;
  std::vector<Feed> feeds_;
  std::vector<Feed> update_feeds_;
  std::vector<SharedVariable> variables_;
  std::vector<TensorType> fetches_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_PIPELINE_PLAN_H_
