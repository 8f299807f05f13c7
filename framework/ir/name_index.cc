#include "framework/ir/name_index.h"

#include <cstdint>

#include "absl/strings/ascii.h"

namespace mica {
namespace {

// A number this far past those that there are isn't given in turn.
constexpr int64_t kMaxGap = 1024;

// No value's name. It is among those that are found by a hash if a number is:
// then, and only then, a number has to be looked for there.
constexpr absl::string_view kHasFarNumbers = "";

// What "17" says; -1 for what isn't the short decimal form of a number.
int64_t NumberOf(absl::string_view name) {
  constexpr size_t kMaxDigits = 9;
  if (name.empty() || name.size() > kMaxDigits ||
      (name[0] == '0' && name.size() > 1)) {
    return -1;
  }
  int64_t number = 0;
  for (const char c : name) {
    if (!absl::ascii_isdigit(c)) return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

ValueId NameIndex::Find(absl::string_view name) const {
  const int64_t number = NumberOf(name);
  if (number >= 0 && number < static_cast<int64_t>(by_number_.size()) &&
      by_number_[number] != kNoValue) {
    return by_number_[number];
  }
  if (number >= 0 && !by_name_.contains(kHasFarNumbers)) return kNoValue;
  if (name == kHasFarNumbers) return kNoValue;
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? kNoValue : it->second;
}

bool NameIndex::Insert(absl::string_view name, ValueId value) {
  const int64_t number = NumberOf(name);
  const auto size = static_cast<int64_t>(by_number_.size());
  if (number < 0 || number > size + kMaxGap) {
    if (number >= 0) by_name_.try_emplace(kHasFarNumbers, kNoValue);
    return Find(name) == kNoValue && by_name_.try_emplace(name, value).second;
  }
  // It may have come when it was far off.
  if (by_name_.contains(kHasFarNumbers) && by_name_.contains(name)) {
    return false;
  }
  if (number >= size) by_number_.resize(number + 1, kNoValue);
  if (by_number_[number] != kNoValue) return false;
  by_number_[number] = value;
  return true;
}

}  // namespace mica
