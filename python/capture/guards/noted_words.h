// Words of memory that hold what they held when they were noted.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_NOTED_WORDS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_NOTED_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mica {

// One list of {address, contents}: the version of a dict or a class, an
// object's pointer to its class, a tensor's sizes. A fact that such words tell
// of needs nothing else to be read as long as none of them differs.
//
// After a model has run, none of these words is in the caches. So what a check
// reads of its own is as little as can be and in one piece, and Prefetch() asks
// for all the memory that it looks at.
//
// A word may lie in memory that another word leads to (a list's items): it has
// to be noted after that one, and is read only if that one is as it was.
class NotedWords {
 public:
  NotedWords();
  NotedWords(NotedWords&&) noexcept;
  NotedWords& operator=(NotedWords&&) noexcept;
  ~NotedWords();

  // Notes the 8 bytes at `at`, which is aligned to them, as they are now.
  // `fact` is whose they are: all words of a fact are noted in a row.
  void Add(const void* at, uint32_t fact);
  // The same, of a word that counts as changed until it is noted again.
  void AddChanged(const void* at, uint32_t fact);

  // From now on the words of `fact` count as changed until they are replaced.
  void Spoil(uint32_t fact);

  size_t size() const;
  uint32_t fact(size_t i) const;
  // The first from `from` on that holds something else; size() if none does.
  size_t FindChanged(size_t from) const;
  // The first behind the words of the fact that word `i` is of.
  size_t EndOfFact(size_t i) const;
  // Replaces the words of that fact by those of `now`; returns their end.
  size_t Replace(size_t i, const NotedWords& now);
  // Asks for all that FindChanged() reads, for who has other things to do
  // before. To be left out if it was read a moment ago: with the words in the
  // caches asking for them takes a third of the time that comparing takes.
  void Prefetch() const;

 private:
  struct Lists;
  std::unique_ptr<Lists> lists_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_NOTED_WORDS_H_
