// The seeds of a property test. MICA_PROPERTY_SEED=7 repeats one,
// MICA_PROPERTY_SEEDS=5000 tries more.

#ifndef MICA_TESTS_PROPERTY_SEEDS_H_
#define MICA_TESTS_PROPERTY_SEEDS_H_

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/environment.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace mica {

inline uint64_t NumberFrom(const char* variable, uint64_t if_unset) {
  const std::string text = EnvironmentVariable(variable);
  uint64_t number = if_unset;
  if (!text.empty()) CHECK(absl::SimpleAtoi(text, &number)) << variable;
  return number;
}

// Calls `test` with each seed, until one fails.
template <typename Test>
void ForEachSeed(uint64_t num_seeds, Test test) {
  const uint64_t end = NumberFrom("MICA_PROPERTY_SEEDS", num_seeds);
  const uint64_t only = NumberFrom("MICA_PROPERTY_SEED", end);
  const uint64_t first = only == end ? 0 : only;
  const uint64_t last = only == end ? end : only + 1;
  for (uint64_t seed = first; seed < last && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE(absl::StrCat("MICA_PROPERTY_SEED=", seed));
    test(seed);
  }
}

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_SEEDS_H_
