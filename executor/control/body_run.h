// Runs the Plan of a branch's or a loop's body.

#ifndef MICA_EXECUTOR_CONTROL_BODY_RUN_H_
#define MICA_EXECUTOR_CONTROL_BODY_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/binding/binding.h"
#include "executor/control/control_run.h"
#include "executor/job/outcome.h"
#include "framework/kernel/kernel.h"

namespace mica {

// A body's steps over several tables of addresses, so that a loop's rounds take
// turns between memories without laying out anything. Single-thread.
class BodyRun {
 public:
  // `binding` is that of the Plan around, `outcome` that of the Job's run; both
  // must outlive this.
  BodyRun(std::shared_ptr<const Plan> plan, const Binding& binding,
          Outcome& outcome, int num_tables);

  // Where things lie for runs over a table.
  struct Addresses {
    absl::Span<void* const> inputs;
    absl::Span<void* const> packed;
    absl::Span<void* const> outputs;
    void* arena = nullptr;
  };
  void Lay(int table, const Addresses& addresses);

  // False, with the step and the user's line in the context's status, if one
  // fails; the others behind it haven't run then.
  bool Run(int table, LaunchContext& context) const;

 private:
  struct Launch {
    LaunchFn fn = nullptr;
    const void* state = nullptr;
    int32_t first_arg = 0;
  };
  bool Fail(size_t step, LaunchContext& context) const;

  const std::shared_ptr<const Plan> plan_;
  const Binding& binding_;
  std::vector<Launch> launches_;
  std::vector<std::unique_ptr<KernelInstance>> instances_;
  std::vector<std::vector<void*>> tables_;  // Of addresses, by argument.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_CONTROL_BODY_RUN_H_
