// How long the steps of a Job take, by kernel.

#ifndef MICA_TOOLS_STEP_TIMES_H_
#define MICA_TOOLS_STEP_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/job/job.h"

namespace mica {

struct KernelTime {
  std::string kernel;
  int64_t steps = 0;  // That it runs.
  double us = 0;      // Of all of them.
};

// Runs each step of a Job on a device over and over, by itself: what the
// device needs for it, or the host to queue it if that is more. The longest
// first. The Job's values are lost.
absl::StatusOr<std::vector<KernelTime>> TimeKernels(const Job& job);

}  // namespace mica

#endif  // MICA_TOOLS_STEP_TIMES_H_
