// Chance, and the values of a block that a random op may read.

#ifndef MICA_TESTS_PROPERTY_RANDOM_VALUES_H_
#define MICA_TESTS_PROPERTY_RANDOM_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "framework/ir/program.h"

namespace mica {

// Equal seeds of the generator give equal choices.
class RandomValues {
 protected:
  explicit RandomValues(std::mt19937_64& random) : random_(random) {}

  // Below `count`, which is positive.
  int64_t Pick(int64_t count) {
    return static_cast<int64_t>(random_() % count);
  }
  bool Chance(int percent) { return Pick(100) < percent; }

  ValueId Any() { return values_[Pick(values_.size())]; }
  // Mostly of the last few, so that values live and die.
  ValueId AnyRecent() {
    const int64_t size = static_cast<int64_t>(values_.size());
    return Chance(30) ? Any()
                      : values_[size - 1 - Pick(std::min<int64_t>(size, 4))];
  }
  ValueId Keep(ValueId id) {
    values_.push_back(id);
    return id;
  }

  std::mt19937_64& random_;
  std::vector<ValueId> values_;  // To pick operands from.
};

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_RANDOM_VALUES_H_
