// Loops over sizes.

#ifndef MICA_PYTHON_CAPTURE_WATCH_LOOP_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_LOOP_WATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "analysis/sizes/size_facts.h"
#include "python/capture/watch/round_state.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Follows `for i in range(n)`, and `for row in tensor` and its like, where
// sizes decide how often that goes: `i` is a number that follows from the
// round. Rounds that begin with the same do the same (RoundState), if no round
// changes what was there before it but the function's own variables and lists;
// then the loop may go more or less often in another run. Any other loop over a
// size has that stay as it is.
//
// Lists to which each round appends, and tuples of a tensor's parts, are as
// long as the loop goes: who looks at one otherwise than to go through it or to
// hand it to an operator that joins tensors ends that.
class LoopWatch final : public WatchPart {
 public:
  explicit LoopWatch(WatchGround& ground) : WatchPart(ground) {}

  // Has loops followed, as sizes are.
  void Begin() { is_on_ = true; }
  bool is_on() const { return is_on_; }

  void BeginStep();
  void EndStep(PyObject** top);

  // The step at hand makes a range of these. True if some of them are sizes
  // that are followed through it.
  bool MakeRange(absl::Span<PyObject* const> args);
  // It goes through a range from its end on. True if that is followed.
  bool ReverseRange(absl::Span<PyObject* const> args);
  // It makes an iterator of `object`. True if that is followed.
  bool MakeIterator(PyObject* object);
  // A loop asks for its next item. True if it is a loop that is followed.
  // Of generators the loop inside is, which may be that of another one.
  bool Advance(PyObject* iterator, absl::Span<PyObject*> variables,
               absl::Span<PyObject* const> operands,
               absl::Span<PyObject* const> generators);
  // A round of a loop on a condition begins; it is left.
  void BeginRound(int64_t number, absl::Span<PyObject*> variables,
                  absl::Span<PyObject* const> operands);
  void LeaveLoop(int64_t number, bool by_condition,
                 absl::Span<PyObject*> variables,
                 absl::Span<PyObject* const> operands);

  // The step at hand changes an object; what it holds.
  void Change(PyObject* object);
  // It reads an attribute.
  void ReadAttribute(PyObject* owner, PyObject* name);
  // It writes an item of a container.
  void WriteItem(PyObject* container, PyObject* key);
  // It uses an item. True if it is one of a list that grows, whose place
  // follows from the round.
  bool UseItem(PyObject* container, PyObject* key);
  // It puts the items of a list at the end of another one.
  void Extend(PyObject* list, PyObject* items, bool at_front = false);
  // It repeats a list of tensors as often as a size says. True if that is
  // followed.
  bool Repeat(const char* op, PyObject* list, PyObject* count);
  // It has an operator look at both.
  void Binary(PyObject* a, PyObject* b) {
    if (a != extended_) Look(a);
    Look(b);
  }
  // It looks at an object, and what it holds.
  void Look(PyObject* object);
  // The program returns an object, or leaves it behind. How many items it has
  // is known of as many rounds alone.
  void Leave(PyObject* object);
  // It writes a global.
  void WriteGlobal() { StopRound(); }
  void Call(PyObject* callable, absl::Span<PyObject* const> args);
  // C code gets what Python code returns to it: an iterator it may keep, as
  // enumerate() does, in what it gives.
  void TakeReturned(PyObject* object);
  // Whether that is only how many parts of a tensor a list is to have.
  bool IsLengthOfListed(PyObject* object) const {
    return lists_tensor_ && values_.Find(object) >= 0;
  }
  void Raised() { lists_tensor_ = false; }
  void CameBack(PyObject* result);

  // Settles which loops are followed: sizes that others go by stay as they are.
  void Finish();
  // Adds those to the facts. After Finish().
  void AddTo(SizeFacts& facts) const;

 private:
  // What a range, or an iterator, goes through: numbers, or, where these are
  // null, the tensors that a call gave.
  struct Span {
    PyRef start, stop;
    int64_t step = 1;
    PyObject* range = nullptr;  // Not dereferenced.
    int32_t call = -1;
    int64_t count = 0;
    bool gives_number = false;   // Each item is one,
    bool gives_counted = false;  // or begins with one, as enumerate() has it.
  };
  struct Loop {
    PyRef iterator;  // Or, on a condition,
    int64_t number = -1;
    std::vector<PyObject*> generators;  // That it is a part of. They live on.
    Span span;
    // On a condition: as of a range, by ids of numbers.
    TapeHostOperand start, stop;
    int64_t step = 0;
    std::vector<PyRef> ints;        // Variables when the first round began.
    int32_t other_comparisons = 0;  // Of numbers that are no sizes, then.
    std::vector<PyRef> given;  // What it goes through in the round at hand.
    std::vector<int32_t> calls, numbers, comparisons;  // At each beginning.
    RoundState state;  // When the last round began.
    int32_t steady = 0;
    bool is_closed = false;
    bool is_left = false;  // Before its end, and that is all that it tells.
    bool is_followed = true;
    std::string at;
    int32_t rounds() const { return static_cast<int32_t>(calls.size()) - 1; }
  };

  bool is_in_round() const { return is_on_ && open_ >= 0; }
  // Whether it was there before the round at hand.
  bool IsOlder(PyObject* object);
  void Pin(const Span& span);
  PyRef Moved(PyObject* number, int64_t by);
  // x[1:] and its like of a list that grew.
  bool IsSteadySlice(PyObject* object) const;
  void Stop();
  void StopRound() {
    if (is_in_round()) Stop();
  }
  void EndOpen();
  bool IsOpenAlone() const;
  void LeaveOpen();
  void BeginRound(Loop& loop, absl::Span<PyObject*> variables,
                  absl::Span<PyObject* const> operands);
  // Ints that another round has others of are followed from the second one on.
  void FollowCounters(Loop& loop, absl::Span<PyObject*> variables);
  // Whether a comparison of a number that each round has another one of says
  // how often a loop on a condition goes. Whether the numbers come out so at
  // other sizes, these comparisons tell.
  bool FindSpan(Loop& loop) const;
  // No round of it is followed any more.
  void GiveUp();
  // Those that a comprehension fills.
  void FindFilled(absl::Span<PyObject* const> operands);
  void LookAtOne(PyObject* object);
  void LookAtIterator(PyObject* iterator);
  void PinRepeats(absl::Span<PyObject* const> lists);
  // What an iterator over lists that grew, and over parts, goes through.
  std::optional<Span> SpanOf(PyObject* iterator);
  std::optional<Span> SpanOfContainer(PyObject* container);
  void NoteParts(PyObject* given);
  // list.insert() with these arguments.
  bool PutsInFront(absl::Span<PyObject* const> args) const;
  bool NoteListed(PyObject* list, int32_t call);
  bool GiveRound(PyObject** top);
  static void NoteGiven(Loop& loop, PyObject* given);
  bool IsSized(PyObject* container) const {
    return grew_.contains(container) || parts_.contains(container) ||
           repeated_.contains(container);
  }
  void AddSized(PyObject* container, int loop);

  bool is_on_ = false;
  bool lists_tensor_ = false;  // list(tensor), until that is there.
  std::vector<Loop> loops_;
  int open_ = -1;  // Of loops_: the one that goes.
  std::unique_ptr<AgeMark> mark_;
  absl::flat_hash_map<PyObject*, Span> ranges_, iterators_;
  std::vector<PyRef> pins_;
  // Of the step at hand.
  std::unique_ptr<Span> made_range_, made_iterator_;
  bool gives_round_ = false;
  int64_t first_call_ = 0;
  PyObject* extended_ = nullptr;
  PyObject* turned_ = nullptr;  // A list that grew, of which it makes another.
  PyObject* iterates_ = nullptr;  // In a round: what it makes an iterator of.
  // Made in this round: not dereferenced later.
  absl::flat_hash_set<PyObject*> own_iterators_;
  GrownLists grown_;                          // In the loop that goes.
  absl::flat_hash_map<PyObject*, int> grew_;  // In which loop. Kept alive.
  // In which others, later.
  absl::flat_hash_map<PyObject*, std::vector<int>> grew_again_;
  // Lists that a number repeats. Kept alive.
  absl::flat_hash_map<PyObject*, HostValues::Id> repeated_;
  HostValues::Id repeats_ = -1;  // Of the step at hand.
  // Tuples and lists of the tensors that a call gave. Kept alive.
  absl::flat_hash_map<PyObject*, int32_t> parts_;
  // By TakeReturned(), and what call's parts it goes through.
  std::vector<std::pair<PyRef, int32_t>> taken_;
  absl::flat_hash_set<int32_t> fixed_parts_;  // Somebody looked at: calls.
  absl::flat_hash_map<PyObject*, Py_ssize_t> operand_sizes_;
  absl::flat_hash_set<PyObject*> changed_;  // In this round.
  absl::flat_hash_set<int64_t> given_up_;   // Loops on a condition.
  // By loop on a condition, while loops aren't followed: what led to its round.
  absl::flat_hash_map<int64_t, std::optional<HostValues::Comparison>>
      conditions_;
  // An item of a list of the run's that the round uses.
  struct Use {
    PyObject* list = nullptr;  // Not dereferenced.
    int64_t place = 0;         // From the end, if below 0.
    int64_t size = 0;
    bool is_round = false;  // The place follows from the round.
  };
  std::vector<Use> uses_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_LOOP_WATCH_H_
