// Whether this process was forked.

#ifndef MICA_EXECUTOR_JOB_FORK_H_
#define MICA_EXECUTOR_JOB_FORK_H_

#include <cstdint>

namespace mica {

// How many forks lie between the process that loaded this code and this one:
// differs from what was kept before a fork, in the child. As cheap as a read.
// Counts from the first call on.
int32_t ForkGeneration();

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_FORK_H_
