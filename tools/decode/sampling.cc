#include "tools/decode/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tools/mix.h"

namespace mica {

absl::Status CheckSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--temperature: wants 0 or more, got ", options.temperature));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--top_k: wants 0 or more, got ", options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--top_p: wants more than 0, 1 at most, got ", options.top_p));
  }
  return absl::OkStatus();
}

double Sampler::Draw() {
  const uint64_t bits = Mix(Mix(options_.seed) + kMixStep * ++num_draws_);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void Sampler::KeepLikely(absl::Span<const float> logits) {
  kept_.resize(logits.size());
  std::iota(kept_.begin(), kept_.end(), 0);
  const auto is_before = [&](int64_t a, int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (options_.top_k > 0 &&
      options_.top_k < static_cast<int64_t>(kept_.size())) {
    const auto end = kept_.begin() + options_.top_k;
    std::nth_element(kept_.begin(), end, kept_.end(), is_before);
    kept_.erase(end, kept_.end());
  }
  std::sort(kept_.begin(), kept_.end(), is_before);
  probabilities_.clear();
  double sum = 0;
  for (const int64_t token : kept_) {
    const double above = (double{logits[token]} - logits[kept_[0]]);
    probabilities_.push_back(std::exp(above / options_.temperature));
    sum += probabilities_.back();
  }
  double together = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    together += probabilities_[i] /= sum;
    if (options_.top_p < 1 && together >= options_.top_p) {
      kept_.resize(i + 1);
      probabilities_.resize(i + 1);
    }
  }
}

absl::StatusOr<int64_t> Sampler::Pick(absl::Span<const float> logits) {
  if (logits.empty()) return absl::InvalidArgumentError("there are no logits");
  const auto is_nan = [](float logit) { return std::isnan(logit); };
  if (const auto it = std::find_if(logits.begin(), logits.end(), is_nan);
      it != logits.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the logit of token ", it - logits.begin(), " is not a number"));
  }
  const auto greatest = std::max_element(logits.begin(), logits.end());
  // An infinite one leaves the others no chance.
  if (options_.temperature == 0 || std::isinf(*greatest)) {
    return greatest - logits.begin();
  }
  KeepLikely(logits);
  double left = Draw() * std::accumulate(probabilities_.begin(),
                                         probabilities_.end(), 0.0);
  for (size_t i = 0; i < kept_.size(); ++i) {
    left -= probabilities_[i];
    if (left < 0) return kept_[i];
  }
  return kept_.back();
}

}  // namespace mica
