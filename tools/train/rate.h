// The course of a learning rate.

#ifndef MICA_TOOLS_TRAIN_RATE_H_
#define MICA_TOOLS_TRAIN_RATE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mica {

struct RateOptions {
  double rate = 0.1;                // After the warm-up.
  std::string course = "constant";  // Or "cosine".
  double final_rate = 0;            // Cosine's, after the last step.
  int64_t warmup_steps = 0;         // A straight line up from 0.

  // Equal for equal courses; `num_steps` counts where the course knows it.
  std::string ToString(int64_t num_steps) const;
};

// InvalidArgument, naming the flag, for options out of range.
absl::Status CheckOptions(const RateOptions& options);

// The rate of step `step`, from 0 on, of `num_steps` in all.
double RateAt(const RateOptions& options, int64_t step, int64_t num_steps);

}  // namespace mica

#endif  // MICA_TOOLS_TRAIN_RATE_H_
