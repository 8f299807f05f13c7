#include "tools/trace.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace mica {

std::string ToChromeTrace(const Plan& plan, absl::Span<const StepTime> times) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (int stream = 0; stream < plan.streams().num_streams; ++stream) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", stream},
                      {"args", {{"name", absl::StrCat("stream ", stream)}}}});
  }
  for (const StepTime& time : times) {
    const Step& step = plan.steps()[time.step];
    int64_t bytes = 0;
    for (int32_t i = 0; i < step.num_args; ++i) {
      bytes += plan.arg_bytes()[step.first_arg + i];
    }
    nlohmann::ordered_json args = {
        {"step", time.step}, {"kernel", step.kernel}, {"bytes", bytes}};
    if (step.source.line != 0) args["line"] = step.source.ToString();
    events.push_back({{"name", step.name},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", time.stream},
                      {"ts", time.start_us},
                      {"dur", time.end_us - time.start_us},
                      {"args", std::move(args)}});
  }
  return nlohmann::ordered_json({{"traceEvents", std::move(events)}}).dump(1);
}

}  // namespace mica
