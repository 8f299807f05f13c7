#include "framework/ir/name_index.h"

#include <cstdint>

#include "absl/strings/ascii.h"

namespace mica {
namespace {

// A number this far past those that there are isn't given in turn.
constexpr int64_t kMaxGap = 1024;

// In by_number_, of by_name_: that numbers are among these.
constexpr size_t kHasFarNumbers = 0;
// Where a number is in by_number_.
constexpr int64_t kFirstNumber = 1;

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
  if (number >= 0) {
    const int64_t place = number + kFirstNumber;
    if (place < static_cast<int64_t>(by_number_.size()) &&
        by_number_[place] != kNoValue) {
      return by_number_[place];
    }
    if (!HasFarNumbers()) return kNoValue;
  }
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? kNoValue : it->second;
}

bool NameIndex::Insert(absl::string_view name, ValueId value) {
  const int64_t number = NumberOf(name);
  if (number < 0) return by_name_.try_emplace(name, value).second;
  if (by_number_.empty()) by_number_.push_back(kNoValue);
  const int64_t place = number + kFirstNumber;
  const auto size = static_cast<int64_t>(by_number_.size());
  if (place > size + kMaxGap) {
    by_number_[kHasFarNumbers] = 0;
    return by_name_.try_emplace(name, value).second;
  }
  // It may have come when it was far off.
  if (HasFarNumbers() && by_name_.contains(name)) return false;
  if (place == size) {
    by_number_.push_back(value);
    return true;
  }
  if (place > size) by_number_.resize(place + 1, kNoValue);
  if (by_number_[place] != kNoValue) return false;
  by_number_[place] = value;
  return true;
}

bool NameIndex::HasFarNumbers() const {
  return !by_number_.empty() && by_number_[kHasFarNumbers] != kNoValue;
}

}  // namespace mica
