#include "tools/train/rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mica {

std::string RateOptions::ToString(int64_t num_steps) const {
  std::string text = absl::StrFormat("%s %.17g", course, rate);
  if (course == "cosine") {
    absl::StrAppendFormat(&text, " to %.17g in %d steps", final_rate,
                          num_steps);
  }
  if (warmup_steps > 0) absl::StrAppend(&text, " warmup ", warmup_steps);
  return text;
}

absl::Status CheckOptions(const RateOptions& options) {
  if (options.course != "constant" && options.course != "cosine") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--course: wants constant or cosine, got '", options.course, "'"));
  }
  for (const double rate : {options.rate, options.final_rate}) {
    if (std::isfinite(rate) && rate >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--rate, --final_rate: wants 0 or more, got ", rate));
  }
  if (options.warmup_steps < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--warmup_steps: wants 0 or more, got ", options.warmup_steps));
  }
  return absl::OkStatus();
}

double RateAt(const RateOptions& options, int64_t step, int64_t num_steps) {
  if (step < options.warmup_steps) {
    return options.rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  if (options.course == "constant") return options.rate;
  const double share = static_cast<double>(step - options.warmup_steps) /
                       static_cast<double>(std::max<int64_t>(
                           1, num_steps - options.warmup_steps));
  return options.final_rate +
         (options.rate - options.final_rate) * 0.5 *
             (1 + std::cos(std::numbers::pi * std::min(share, 1.0)));
}

}  // namespace mica
