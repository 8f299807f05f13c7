// Which class of Jobs each op of a Program belongs to.

#ifndef MICA_ANALYSIS_SCHEDULE_STAGE_MAP_H_
#define MICA_ANALYSIS_SCHEDULE_STAGE_MAP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/schedule/cut.h"
#include "analysis/schedule/value_plan.h"
#include "framework/ir/program.h"

namespace mica {

// Places ops in stages; see CutIntoStages(). `program` must outlive it.
class StageMap {
 public:
  static absl::StatusOr<StageMap> Build(const Program& program,
                                        const CutOptions& options);

  // Of an op that runs for each micro-batch; nothing for others.
  const std::optional<JobClass>& op_class(OpId op) const {
    return op_class_[op];
  }
  // Of a value behind gradients: the stage whose gradients it is computed from,
  // kSeveral of such ones, nothing for other values. A gradient is of its
  // variable's.
  static constexpr int kSeveral = -1;
  std::optional<int> gradient_stage(ValueId value) const {
    return gradient_stage_[value];
  }
  // True for what is of one stage's gradients, if an op joins it with what is
  // of another's.
  bool is_joined(ValueId value) const { return is_joined_[value]; }
  // True for what the Program returns that is computed from gradients, behind
  // the backward pass: there is one for all micro-batches.
  bool is_of_all_batches(ValueId output) const {
    return is_of_all_batches_[output];
  }
  // True if an update or such an output reads gradients of several stages.
  bool needs_reduce() const { return needs_reduce_; }
  // The stage whose update makes Program::updates()[index], or nothing if a
  // Job of each micro-batch does.
  const std::optional<int>& update_stage(int index) const {
    return update_stage_[index];
  }
  // A gradient's variable, by value.
  const absl::flat_hash_map<ValueId, ValueId>& gradients() const {
    return variable_of_gradient_;
  }
  // The first stage that reads a variable in its forward pass.
  int variable_stage(ValueId variable) const;
  // That sums gradients up.
  JobClass SummingClass(ValueId variable) const {
    return {is_split_ ? JobType::kBackwardWeight : JobType::kBackward,
            variable_stage(variable)};
  }

 private:
  StageMap(const Program& program, const CutOptions& options)
      : program_(program),
        num_stages_(options.num_stages),
        is_split_(options.split_backward) {}

  absl::Status NameGradients(const CutOptions& options);
  // By value: those that `roots` are computed from, with them; behind a value
  // that `stops` says nothing is looked for.
  std::vector<bool> Ancestors(const std::vector<ValueId>& roots,
                              bool stop_at_gradients) const;
  void FindUpdates();
  void FindGradientStages();
  // The stage of an update that its value or its target tells of.
  std::optional<int> StageOfUpdate(const Update& update) const;
  void PlaceUpdates();
  void CutForward(const std::vector<bool>& is_forward);
  void PlaceForward(const std::vector<bool>& is_forward);
  // By module, of its forward ops; -1 where these are in several.
  absl::flat_hash_map<absl::string_view, int> StagesOfScopes() const;
  void PlaceBackward(const std::vector<bool>& is_backward);
  void SplitBackward(const std::vector<bool>& is_backward);
  absl::Status CheckUpdates() const;
  // Nothing for what no op computes.
  std::optional<OpId> ProducerOf(ValueId value) const;

  const Program& program_;
  int num_stages_;
  bool is_split_;
  ValueId loss_ = kNoValue;
  absl::flat_hash_map<ValueId, ValueId> variable_of_gradient_;
  absl::flat_hash_map<ValueId, int> variable_stage_;
  std::vector<OpId> starts_;   // Of the stages behind the first, if by module.
  std::vector<bool> is_late_;  // By update: made once a run.
  std::vector<std::optional<int>> update_stage_;
  std::vector<std::optional<int>> gradient_stage_;  // By value.
  std::vector<bool> is_joined_;                     // By value.
  std::vector<bool> is_of_all_batches_;             // By value; of outputs.
  bool needs_reduce_ = false;
  std::vector<int> stage_;  // By op, of those that have a class.
  std::vector<std::optional<JobClass>> op_class_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_STAGE_MAP_H_
