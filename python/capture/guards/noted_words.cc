#include "python/capture/guards/noted_words.h"

#include <algorithm>

#include "python/capture/guards/prefetch.h"

namespace mica {
namespace {

// How many words ahead memory is asked for: enough to keep all of the core's
// outstanding loads busy, few enough to still be in its first cache.
constexpr size_t kAhead = 96;

}  // namespace

size_t NotedWords::FindChanged(size_t from) const {
  const Word* words = words_.data();
  const size_t size = words_.size();
  const size_t num_ahead = size - std::min(size, kAhead);
  size_t i = from;
  for (; i < num_ahead; ++i) {
    __builtin_prefetch(words[i + kAhead].at);
    if (Load(words[i].at) != words[i].was) return i;
  }
  for (; i < size; ++i) {
    if (Load(words[i].at) != words[i].was) return i;
  }
  return size;
}

void NotedWords::Spoil(uint32_t fact) {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (facts_[i] == fact) words_[i].was = ~Load(words_[i].at);
  }
}

size_t NotedWords::EndOfFact(size_t i) const {
  size_t end = i + 1;
  while (end < facts_.size() && facts_[end] == facts_[i]) ++end;
  return end;
}

size_t NotedWords::Replace(size_t i, const NotedWords& now) {
  const size_t end = EndOfFact(i);
  size_t begin = i;
  while (begin > 0 && facts_[begin - 1] == facts_[i]) --begin;
  if (now.size() == end - begin) {
    std::copy(now.words_.begin(), now.words_.end(),
              words_.begin() + static_cast<ptrdiff_t>(begin));
    return end;
  }
  const auto replace = [begin, end](auto& all, const auto& others) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(begin);
    const auto at =
        all.erase(first, first + static_cast<ptrdiff_t>(end - begin));
    all.insert(at, others.begin(), others.end());
  };
  replace(words_, now.words_);
  replace(facts_, now.facts_);
  return begin + now.size();
}

void NotedWords::Prefetch() const {
  mica::Prefetch(words_.data(),
                 std::min(words_.size(), kAhead) * sizeof(words_[0]));
}

}  // namespace mica
