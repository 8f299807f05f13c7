// Schedules: orders of Jobs for each device.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/schedule/draw.h"
#include "analysis/schedule/generate.h"
#include "framework/base/status.h"
#include "framework/text/text.h"
#include "python/bridge/bindings.h"
#include "python/bridge/schedules.h"
#include "python/bridge/status.h"

namespace mica {
namespace {

namespace nb = nanobind;

// Of one micro-batch on one device: forward, backward_input, backward_weight,
// update, send.
using DeviceCosts = std::vector<double>;

absl::StatusOr<ScheduleCosts> CostsOf(const DeviceCosts& costs, int num_devices,
                                      int num_stages) {
  if (costs.size() != 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("costs: wants 5 numbers, got ", costs.size()));
  }
  return DivideCosts({.jobs = {.forward = costs[0],
                               .backward_input = costs[1],
                               .backward_weight = costs[2],
                               .update = costs[3]},
                      .send = costs[4]},
                     num_devices, num_stages);
}

absl::StatusOr<PySchedule> Complete(Schedule schedule,
                                    const DeviceCosts& costs) {
  MICA_ASSIGN_OR_RETURN(JobGraph graph, JobGraph::Build(schedule));
  MICA_ASSIGN_OR_RETURN(
      const ScheduleCosts by_stage,
      CostsOf(costs, graph.num_devices(), graph.num_stages()));
  MICA_ASSIGN_OR_RETURN(Timeline timeline, Simulate(graph, by_stage));
  return PySchedule{.schedule = std::move(schedule),
                    .graph = std::move(graph),
                    .timeline = std::move(timeline)};
}

absl::StatusOr<PySchedule> MakeSchedule(const std::string& kind, int devices,
                                        int micro_batches, int chunks,
                                        const DeviceCosts& costs) {
  const std::optional<PipelineKind> known = ParsePipelineKind(kind);
  if (!known.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule: wants gpipe, 1f1b, interleaved, zb_h1 or zbv, "
                     "got \"",
                     kind, "\""));
  }
  PipelineOptions options = {.kind = *known,
                             .num_devices = devices,
                             .num_micro_batches = micro_batches,
                             .num_chunks = chunks};
  if (devices > 0 && devices <= 1 << 16 && chunks >= 0 && chunks <= 1 << 10) {
    MICA_ASSIGN_OR_RETURN(options.costs,
                          CostsOf(costs, devices, NumStages(options)));
  }
  MICA_ASSIGN_OR_RETURN(Schedule schedule, MakePipeline(options));
  return Complete(std::move(schedule), costs);
}

std::string TableOf(const PySchedule& self) {
  return ToTable(self.graph, self.timeline);
}
std::string SvgOf(const PySchedule& self) {
  return ToSvg(self.graph, self.timeline, self.schedule.name);
}
}  // namespace

void BindSchedule(nb::module_& m) {
  nb::class_<PySchedule>(m, "Schedule")
      .def_static(
          "make",
          [](const std::string& kind, int devices, int micro_batches,
             int chunks, const DeviceCosts& costs) {
            return ValueOrThrow(
                MakeSchedule(kind, devices, micro_batches, chunks, costs));
          },
          nb::arg("kind"), nb::arg("devices"), nb::arg("micro_batches"),
          nb::arg("chunks"), nb::arg("costs"))
      .def_static(
          "parse",
          [](const std::string& text, const DeviceCosts& costs) {
            return ValueOrThrow(
                Complete(ValueOrThrow(ParseSchedule(text)), costs));
          },
          nb::arg("text"), nb::arg("costs"))
      .def("__str__",
           [](const PySchedule& self) { return ToText(self.schedule); })
      .def("table", &TableOf)
      .def("svg", &SvgOf)
      .def_prop_ro("name",
                   [](const PySchedule& self) { return self.schedule.name; })
      .def_prop_ro(
          "num_devices",
          [](const PySchedule& self) { return self.graph.num_devices(); })
      .def_prop_ro(
          "num_stages",
          [](const PySchedule& self) { return self.graph.num_stages(); })
      .def_prop_ro(
          "num_micro_batches",
          [](const PySchedule& self) { return self.graph.num_micro_batches(); })
      .def_prop_ro("bubble",
                   [](const PySchedule& self) { return self.timeline.bubble; });
}

}  // namespace mica
