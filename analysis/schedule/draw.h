// Timelines for people: a table, a picture, a trace.

#ifndef MICA_ANALYSIS_SCHEDULE_DRAW_H_
#define MICA_ANALYSIS_SCHEDULE_DRAW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/simulate.h"
#include "framework/trace/trace_event.h"

namespace mica {

// A row a device, a column for as long as the shortest Job takes:
//
//   device 0 | F0 F1 .  .  B0 B0 .  B1 B1
//   device 1 | .  F0 B0 B0 F1 B1 B1
//
// F forward, B backward, I its inputs' part, W its weights', U update, "."
// idle; then the micro-batch, after "stage:" where devices have several. Past
// 1,000 columns the Jobs of each device alone, in order.
std::string ToTable(const JobGraph& graph, const Timeline& timeline);

// The same as a picture, with a colour a type of Job and one shade a chunk.
std::string ToSvg(const JobGraph& graph, const Timeline& timeline,
                  absl::string_view title);

// In the JSON form that Perfetto and chrome://tracing read: a thread a device,
// an event a Job, with an arrow wherever a value goes to another device.
// `unit_us` is how many microseconds one unit of the timeline is.
std::string ToChromeTrace(const JobGraph& graph, const Timeline& timeline,
                          double unit_us);

// The same as a part of a trace: the timeline's 0 is at `start_ns`, and each
// device has a row.
void AppendTimeline(const JobGraph& graph, const Timeline& timeline,
                    double unit_ns, int64_t start_ns,
                    absl::Span<const int32_t> tracks,
                    std::vector<TraceEvent>& events);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_DRAW_H_
