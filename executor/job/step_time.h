// When a step ran.

#ifndef MICA_EXECUTOR_JOB_STEP_TIME_H_
#define MICA_EXECUTOR_JOB_STEP_TIME_H_

#include "analysis/plan/plan.h"

namespace mica {

// In microseconds from the run's start, on a stream or a queue's worker.
struct StepTime {
  StepId step = 0;
  int stream = 0;
  double start_us = 0, end_us = 0;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_STEP_TIME_H_
