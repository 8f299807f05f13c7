// The threads that everything in this process shares.

#ifndef MICA_PYTHON_PROCESS_HELPERS_H_
#define MICA_PYTHON_PROCESS_HELPERS_H_

#include <memory>

#include "analysis/plan/plan.h"
#include "executor/job/helpers.h"
#include "executor/job/job.h"

namespace mica {

// Those that help Jobs whose Plans have a queue for `num_threads`, one less.
// Made when they are first asked for, in a forked process again; MICA_SPIN=0
// in the environment keeps them from looking for work before they sleep.
// Thread-safe.
std::shared_ptr<Helpers> SharedHelpers(int num_threads);

// What Jobs of a Plan get in this process: SharedHelpers(); SignalInterrupt();
// a Poison if MICA_POISON is 1; a StallWatch, which writes to the log, if
// MICA_HANG_REPORT is a number of seconds.
JobOptions MakeJobOptions(const Plan& plan);

}  // namespace mica

#endif  // MICA_PYTHON_PROCESS_HELPERS_H_
