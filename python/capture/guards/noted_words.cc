#include "python/capture/guards/noted_words.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "framework/base/hit_code.h"
#include "framework/base/prefetch.h"

namespace mica {
namespace {

uint64_t Load(const void* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

struct NotedWords::Lists {
  struct Word {
    const void* at;
    uint64_t was;
  };

  std::vector<Word> words;
  std::vector<uint32_t> facts;  // By word; read when one has changed.
};

NotedWords::NotedWords() : lists_(std::make_unique<Lists>()) {}
NotedWords::NotedWords(NotedWords&&) noexcept = default;
NotedWords& NotedWords::operator=(NotedWords&&) noexcept = default;
NotedWords::~NotedWords() = default;

void NotedWords::Add(const void* at, uint32_t fact) {
  lists_->words.push_back({at, Load(at)});
  lists_->facts.push_back(fact);
}

void NotedWords::AddChanged(const void* at, uint32_t fact) {
  lists_->words.push_back({at, ~Load(at)});
  lists_->facts.push_back(fact);
}

size_t NotedWords::size() const { return lists_->words.size(); }

uint32_t NotedWords::fact(size_t i) const { return lists_->facts[i]; }

MICA_HIT_CODE size_t NotedWords::FindChanged(size_t from) const {
  const Lists::Word* words = lists_->words.data();
  const size_t size = lists_->words.size();
  for (size_t i = from; i < size; ++i) {
    if (Load(words[i].at) != words[i].was) return i;
  }
  return size;
}

void NotedWords::Spoil(uint32_t fact) {
  std::vector<Lists::Word>& words = lists_->words;
  for (size_t i = 0; i < words.size(); ++i) {
    if (lists_->facts[i] == fact) words[i].was = ~Load(words[i].at);
  }
}

size_t NotedWords::EndOfFact(size_t i) const {
  size_t end = i + 1;
  const std::vector<uint32_t>& facts = lists_->facts;
  while (end < facts.size() && facts[end] == facts[i]) ++end;
  return end;
}

size_t NotedWords::Replace(size_t i, const NotedWords& now) {
  const size_t end = EndOfFact(i);
  size_t begin = i;
  const std::vector<uint32_t>& facts = lists_->facts;
  while (begin > 0 && facts[begin - 1] == facts[i]) --begin;
  const std::vector<Lists::Word>& others = now.lists_->words;
  if (others.size() == end - begin) {
    std::copy(others.begin(), others.end(),
              lists_->words.begin() + static_cast<ptrdiff_t>(begin));
    return end;
  }
  const auto replace = [begin, end](auto& all, const auto& from) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(begin);
    const auto at =
        all.erase(first, first + static_cast<ptrdiff_t>(end - begin));
    all.insert(at, from.begin(), from.end());
  };
  replace(lists_->words, now.lists_->words);
  replace(lists_->facts, now.lists_->facts);
  return begin + now.size();
}

MICA_HIT_CODE void NotedWords::Prefetch() const {
  // In the order in which they are compared. A list of their lines, each of
  // them once and by address, would have to come from memory, too, which takes
  // longer than to ask for some lines twice.
  PrefetchItems(lists_->words);
  for (const Lists::Word& word : lists_->words) PrefetchLine(word.at);
}

}  // namespace mica
