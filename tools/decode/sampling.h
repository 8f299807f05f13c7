// Which token comes next.

#ifndef MICA_TOOLS_DECODE_SAMPLING_H_
#define MICA_TOOLS_DECODE_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mica {

struct SamplingOptions {
  double temperature = 0;  // Logits are divided by it; 0 is greedy.
  int64_t top_k = 0;       // Of the so many most likely tokens; 0: of all.
  // Of the fewest most likely tokens that are so probable together.
  double top_p = 1;
  uint64_t seed = 0;
};

// InvalidArgument, naming the flag, for what can't be meant.
absl::Status CheckSampling(const SamplingOptions& options);

// Picks tokens by their logits. Greedy: the first of the most likely ones.
// Else by draws of splitmix64 from the seed, one for each token.
class Sampler {
 public:
  // The options are checked.
  explicit Sampler(const SamplingOptions& options) : options_(options) {}

  // InvalidArgument if a logit isn't a number, or there is none.
  absl::StatusOr<int64_t> Pick(absl::Span<const float> logits);

 private:
  double Draw();  // In [0, 1).
  // Those that may be picked, the most likely first.
  void KeepLikely(absl::Span<const float> logits);

  const SamplingOptions options_;
  uint64_t num_draws_ = 0;
  std::vector<int64_t> kept_;          // These two are scratch.
  std::vector<double> probabilities_;  // By place in kept_.
};

}  // namespace mica

#endif  // MICA_TOOLS_DECODE_SAMPLING_H_
