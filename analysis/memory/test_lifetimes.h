// Packing problems for tests, with what is known of their solutions.

#ifndef MICA_ANALYSIS_MEMORY_TEST_LIFETIMES_H_
#define MICA_ANALYSIS_MEMORY_TEST_LIFETIMES_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "analysis/memory/lifetime.h"

namespace mica {

// Cuts a rectangle of `steps` by `bytes` across, then each part, until there
// are `count` or none can be cut: an arena of `bytes` is enough, and at every
// step all of it is alive. Shuffled, as the order would tell.
inline std::vector<Lifetime> CutRectangle(int count, int32_t steps,
                                          int64_t bytes, int64_t unit,
                                          std::mt19937& random) {
  std::vector<Lifetime> parts = {
      {.first = 0, .last = steps - 1, .bytes = bytes}};
  for (int tries = 0;
       static_cast<int>(parts.size()) < count && tries < 20 * count; ++tries) {
    Lifetime& part = parts[random() % parts.size()];
    Lifetime rest = part;
    const int32_t length = part.last - part.first + 1;
    const int64_t units = part.bytes / unit;
    if (random() % 2 == 0 && length > 1) {
      const auto cut = static_cast<int32_t>(random() % (length - 1));
      part.last = part.first + cut;
      rest.first = part.last + 1;
    } else if (units > 1) {
      part.bytes = unit * static_cast<int64_t>(1 + random() % (units - 1));
      rest.bytes -= part.bytes;
    } else {
      continue;
    }
    parts.push_back(rest);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

inline std::vector<Lifetime> RandomLifetimes(int count, int32_t steps,
                                             int32_t longest, int64_t largest,
                                             std::mt19937& random) {
  std::vector<Lifetime> lifetimes(count);
  for (Lifetime& lifetime : lifetimes) {
    lifetime.first = static_cast<int32_t>(random() % steps);
    lifetime.last = lifetime.first + static_cast<int32_t>(random() % longest);
    lifetime.bytes = static_cast<int64_t>(1 + random() % largest);
  }
  return lifetimes;
}

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_TEST_LIFETIMES_H_
