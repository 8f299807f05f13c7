#include "analysis/schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace mica {
namespace {

struct Look {
  char letter;
  absl::string_view colour;
};

Look LookOf(JobType type) {
  switch (type) {
    case JobType::kForward:
      return {'F', "#7fb2e5"};
    case JobType::kBackward:
      return {'B', "#8fce9b"};
    case JobType::kBackwardInput:
      return {'I', "#8fd6cf"};
    case JobType::kBackwardWeight:
      return {'W', "#f2c57c"};
    case JobType::kReduce:
      return {'R', "#b5a6de"};
    case JobType::kUpdate:
      return {'U', "#d98fc2"};
  }
  return {'?', "#ffffff"};
}

bool HasChunks(const JobGraph& graph) {
  return graph.num_stages() > graph.num_devices();
}

// "3", or "5:3" for stage 5; the stage of what is for all micro-batches.
std::string Number(const JobGraph& graph, const ScheduledJob& job) {
  if (IsForAllMicroBatches(job.type)) return absl::StrCat(job.stage);
  if (!HasChunks(graph)) return absl::StrCat(job.micro_batch);
  return absl::StrCat(job.stage, ":", job.micro_batch);
}

std::string Label(const JobGraph& graph, const ScheduledJob& job) {
  return absl::StrCat(std::string(1, LookOf(job.type).letter),
                      Number(graph, job));
}

double Length(const JobSpan& span) { return span.end - span.start; }

// The shortest of the Jobs that take any time, or 0.
double ShortestJob(const Timeline& timeline) {
  double shortest = 0;
  for (const JobSpan& span : timeline.spans) {
    const double length = Length(span);
    if (length > 0 && (shortest == 0 || length < shortest)) shortest = length;
  }
  return shortest;
}

// A device's labels, each in the columns of its time.
std::vector<std::string> Cells(const JobGraph& graph, const Timeline& timeline,
                               int device, double unit) {
  std::vector<std::string> cells;
  for (JobId id = graph.begin(device); id < graph.end(device); ++id) {
    const JobSpan& span = timeline.spans[id];
    const std::string label = Label(graph, graph.job(id));
    if (unit > 0) {
      const auto start = static_cast<size_t>(std::lround(span.start / unit));
      const auto end = static_cast<size_t>(std::lround(span.end / unit));
      if (cells.size() < start) cells.resize(start, ".");
      if (cells.size() < end) cells.resize(end, label);
    } else {
      cells.push_back(label);
    }
  }
  return cells;
}

// How many levels of shade: stages on the device that holds most.
int Chunk(const JobGraph& graph, int stage) {
  const auto& devices = graph.device_of_stage();
  return static_cast<int>(
      std::count(devices.begin(), devices.begin() + stage, devices[stage]));
}

// The picture's measures, in pixels.
constexpr double kRow = 26;
constexpr double kLeft = 70;
constexpr double kTop = 34;
constexpr double kMargin = 12;
constexpr double kNarrowest = 18;  // Of the shortest Job.
constexpr double kWidest = 20'000;

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

void AppendText(double x, double y, absl::string_view anchor,
                absl::string_view text, std::string* out) {
  absl::StrAppendFormat(out,
                        "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">"
                        "%s</text>\n",
                        x, y, anchor, Escape(text));
}

void AppendBox(double x, double y, double width, absl::string_view colour,
               double opacity, absl::string_view hint, std::string* out) {
  absl::StrAppendFormat(
      out,
      "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
      "fill=\"%s\" fill-opacity=\"%.2f\" stroke=\"#555555\" "
      "stroke-width=\"0.5\"><title>%s</title></rect>\n",
      x, y, width, kRow - 4, colour, opacity, Escape(hint));
}

void AppendLegend(const JobGraph& graph, double y, std::string* out) {
  double x = kLeft;
  for (JobType type : kJobTypes) {
    bool occurs = false;
    for (JobId id = 0; id < graph.num_jobs(); ++id) {
      occurs = occurs || graph.job(id).type == type;
    }
    if (!occurs) continue;
    AppendBox(x, y, kRow, LookOf(type).colour, 1, ToString(type), out);
    AppendText(x + kRow + 6, y + 15, "start", ToString(type), out);
    x += 150;
  }
}

}  // namespace

std::string ToTable(const JobGraph& graph, const Timeline& timeline) {
  constexpr double kMostColumns = 1000;
  double unit = ShortestJob(timeline);
  if (unit * kMostColumns < timeline.makespan) unit = 0;
  std::vector<std::vector<std::string>> rows;
  size_t width = 0;
  for (int device = 0; device < graph.num_devices(); ++device) {
    rows.push_back(Cells(graph, timeline, device, unit));
    for (const std::string& cell : rows.back()) {
      width = std::max(width, cell.size());
    }
  }
  std::string out;
  for (size_t device = 0; device < rows.size(); ++device) {
    std::string line = absl::StrFormat("device %d |", device);
    for (const std::string& cell : rows[device]) {
      absl::StrAppend(&line, " ", cell, std::string(width - cell.size(), ' '));
    }
    line.resize(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string ToSvg(const JobGraph& graph, const Timeline& timeline,
                  absl::string_view title) {
  const double shortest = ShortestJob(timeline);
  double scale = shortest > 0 ? kNarrowest / shortest : 1;
  if (timeline.makespan * scale > kWidest) scale = kWidest / timeline.makespan;
  const double width =
      std::max(kLeft + timeline.makespan * scale + kMargin, 760.0);
  const double bottom = kTop + kRow * graph.num_devices();
  std::string out = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      width, bottom + kRow + kMargin);
  AppendText(kMargin, 20, "start",
             absl::StrFormat("%s: makespan %.6g, bubble %.1f %%", title,
                             timeline.makespan, 100 * timeline.bubble),
             &out);
  for (int device = 0; device < graph.num_devices(); ++device) {
    const double y = kTop + kRow * device;
    AppendText(kMargin, y + 15, "start", absl::StrCat("device ", device), &out);
    for (JobId id = graph.begin(device); id < graph.end(device); ++id) {
      const ScheduledJob& job = graph.job(id);
      const JobSpan& span = timeline.spans[id];
      if (Length(span) <= 0) continue;
      const double x = kLeft + span.start * scale;
      const double length = Length(span) * scale;
      const double opacity = 1.0 / (1 + 0.8 * Chunk(graph, job.stage));
      AppendBox(x, y, length, LookOf(job.type).colour, opacity,
                absl::StrFormat("%s: %.6g to %.6g", job.ToString(), span.start,
                                span.end),
                &out);
      const std::string number = Number(graph, job);
      if (length < 6.5 * static_cast<double>(number.size())) continue;
      AppendText(x + length / 2, y + 15, "middle", number, &out);
    }
  }
  AppendLegend(graph, bottom + 6, &out);
  absl::StrAppend(&out, "</svg>\n");
  return out;
}

void AppendTimeline(const JobGraph& graph, const Timeline& timeline,
                    double unit_ns, int64_t start_ns,
                    absl::Span<const int32_t> tracks,
                    std::vector<TraceEvent>& events) {
  const auto at = [&](double time) {
    return start_ns + static_cast<int64_t>(std::llround(time * unit_ns));
  };
  for (JobId id = 0; id < graph.num_jobs(); ++id) {
    const ScheduledJob& job = graph.job(id);
    const JobSpan& span = timeline.spans[id];
    const int device = graph.device(id);
    events.push_back({.track = tracks[device],
                      .start_ns = at(span.start),
                      .end_ns = at(span.end),
                      .name = Label(graph, job),
                      .category = std::string(ToString(job.type)),
                      .args = {{"stage", int64_t{job.stage}},
                               {"micro_batch", int64_t{job.micro_batch}}}});
    for (JobId input : graph.inputs(id)) {
      if (graph.device(input) == device) continue;
      events.push_back({.kind = TraceEvent::Kind::kArrow,
                        .track = tracks[graph.device(input)],
                        .to_track = tracks[device],
                        .start_ns = at(timeline.spans[input].end),
                        .end_ns = at(span.start),
                        .name = "send",
                        .category = "send"});
    }
  }
}

std::string ToChromeTrace(const JobGraph& graph, const Timeline& timeline,
                          double unit_us) {
  TraceEvents trace;
  std::vector<int32_t> tracks;
  for (int device = 0; device < graph.num_devices(); ++device) {
    tracks.push_back(device);
    trace.tracks.push_back(absl::StrCat("device ", device));
  }
  AppendTimeline(graph, timeline, unit_us * 1000, /*start_ns=*/0, tracks,
                 trace.events);
  return ToChromeTrace(trace);
}

}  // namespace mica
