#include "framework/trace/trace_event.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace mica {
namespace {

using Json = nlohmann::ordered_json;

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

Json ToJson(absl::Span<const TraceArg> args) {
  Json json = Json::object();
  for (const TraceArg& arg : args) {
    std::visit([&](const auto& value) { json[arg.name] = value; }, arg.value);
  }
  return json;
}

// One line of the file after another.
class Writer {
 public:
  void Add(const Json& event) {
    // Names may be any bytes.
    absl::StrAppend(&text_, is_first_ ? "\n" : ",\n",
                    event.dump(-1, ' ', false, Json::error_handler_t::replace));
    is_first_ = false;
  }

  void AddEvent(const TraceEvent& event) {
    Json json = {{"name", event.name}};
    if (!event.category.empty()) json["cat"] = event.category;
    switch (event.kind) {
      case TraceEvent::Kind::kSpan:
        Place(json, "X", event.track, event.start_ns);
        json["dur"] = Microseconds(event.end_ns - event.start_ns);
        json["args"] = ToJson(event.args);
        return Add(json);
      case TraceEvent::Kind::kCounter:
        json["ph"] = "C";
        json["pid"] = 0;
        json["ts"] = Microseconds(event.start_ns);
        json["args"] = ToJson(event.args);
        return Add(json);
      case TraceEvent::Kind::kArrow: {
        json["id"] = ++num_arrows_;
        Json end = json;
        Place(json, "s", event.track, event.start_ns);
        Place(end, "f", event.to_track, event.end_ns);
        end["bp"] = "e";
        Add(json);
        return Add(end);
      }
    }
  }

  void AddTrack(int32_t track, const std::string& name) {
    Add({{"name", "thread_name"},
         {"ph", "M"},
         {"pid", 0},
         {"tid", track},
         {"args", {{"name", name}}}});
    Add({{"name", "thread_sort_index"},
         {"ph", "M"},
         {"pid", 0},
         {"tid", track},
         {"args", {{"sort_index", track}}}});
  }

  std::string Finish(int64_t num_dropped) && {
    return absl::StrCat("{\"traceEvents\": [", text_,
                        "\n], \"displayTimeUnit\": \"ns\", \"otherData\": "
                        "{\"dropped_events\": ",
                        num_dropped, "}}\n");
  }

 private:
  static void Place(Json& json, const char* phase, int32_t track, int64_t ns) {
    json["ph"] = phase;
    json["pid"] = 0;
    json["tid"] = track;
    json["ts"] = Microseconds(ns);
  }

  std::string text_;
  bool is_first_ = true;
  int64_t num_arrows_ = 0;
};

}  // namespace

std::string ToChromeTrace(const TraceEvents& trace) {
  Writer writer;
  for (size_t i = 0; i < trace.tracks.size(); ++i) {
    writer.AddTrack(static_cast<int32_t>(i), trace.tracks[i]);
  }
  for (const TraceEvent& event : trace.events) writer.AddEvent(event);
  return std::move(writer).Finish(trace.num_dropped);
}

}  // namespace mica
