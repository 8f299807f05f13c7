// A Schedule, as Python holds it.

#ifndef MICA_PYTHON_BRIDGE_SCHEDULES_H_
#define MICA_PYTHON_BRIDGE_SCHEDULES_H_

#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/simulate.h"
#include "framework/schedule/schedule.h"

namespace mica {

// A Schedule that is complete and can end, and how long its Jobs take.
struct PySchedule {
  Schedule schedule;
  JobGraph graph;
  Timeline timeline;
};

}  // namespace mica

#endif  // MICA_PYTHON_BRIDGE_SCHEDULES_H_
