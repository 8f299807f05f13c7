// Runs a step that is a branch, a loop or a call.

#ifndef MICA_EXECUTOR_CONTROL_CONTROL_RUN_H_
#define MICA_EXECUTOR_CONTROL_CONTROL_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/plan.h"
#include "executor/binding/binding.h"
#include "executor/job/outcome.h"
#include "framework/kernel/kernel.h"

namespace mica {

class BodyRun;

// What one Job keeps of such a step. To the Job it is a kernel like others: who
// runs the step's launch, on whatever thread, runs the bodies. Addresses are
// laid out when they change, so that rounds of a loop cost their steps alone.
// Single-thread.
class ControlRun : public KernelInstance {
 public:
  // `step` of the Plan of `binding`, or of a body's Plan in it. A loop ends,
  // before its next round, when the run whose `outcome` this is has failed or
  // was cancelled. All must outlive this.
  ControlRun(const Step& step, const Binding& binding, Outcome& outcome);
  ~ControlRun() override;

  // The step's launch; `state` is the ControlRun.
  static bool Launch(const void* state, void* const* args,
                     LaunchContext& context);

 private:
  // Tables of addresses, by what a round reads and writes.
  enum Table { kFirst, kFromResult, kFromSpare, kNumTables };

  bool Run(void* const* args, LaunchContext& context);
  // A branch or a call.
  bool RunOnce(LaunchContext& context);
  bool RunWhile(LaunchContext& context);
  void LayOnce();
  void LayWhile();
  // Moves the initial or the last values to where they must be.
  void CopyInitial(Table to);
  void CopySpareToResults();
  // Adds to an error in which body, of which round, it came.
  bool Fail(int body, int64_t round, LaunchContext& context) const;

  void* operand(size_t index) const { return args_[index]; }
  // Operands before those that the bodies get.
  size_t num_predicates() const {
    return control_.kind == ControlKind::kIf ? 1 : 0;
  }
  // The packed copies that a body reads.
  absl::Span<void* const> PackedFor(size_t body) const;
  char* scratch() const { return static_cast<char*>(args_.back()); }
  char* result(size_t index) const;
  char* spare(size_t index) const {
    return scratch() + control_.carried[index].spare_offset;
  }

  const ControlPlan& control_;
  Outcome& outcome_;
  const size_t num_operands_;
  const size_t num_results_;
  bool reads_initial_in_place_ = true;
  std::vector<std::unique_ptr<BodyRun>> bodies_;
  std::vector<void*> args_;  // That the tables are laid out for.
};

// How a step is launched.
struct StepLaunch {
  LaunchFn fn = nullptr;
  const void* state = nullptr;
};

// As a ControlRun takes them; what the step keeps between runs joins
// `instances`.
StepLaunch MakeLaunch(const Step& step, const Binding& binding,
                      Outcome& outcome,
                      std::vector<std::unique_ptr<KernelInstance>>& instances);

}  // namespace mica

#endif  // MICA_EXECUTOR_CONTROL_CONTROL_RUN_H_
