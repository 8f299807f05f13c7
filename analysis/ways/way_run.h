// What is known of a run whose way data decide.

#ifndef MICA_ANALYSIS_WAYS_WAY_RUN_H_
#define MICA_ANALYSIS_WAYS_WAY_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/lower/tape.h"

namespace mica {

// A moment of a run at which its way forks, or at which ways may meet.
struct WayEvent {
  enum class Kind {
    kFork,  // What comes after it may depend on a value that was read.
    kJoin,  // The program has nothing but a state that is described.
  };
  Kind kind = Kind::kFork;
  int32_t calls = 0;  // Made before it.
  // kFork: the call of the tape that gives the value; or, of `calls` at its
  // end, the comparison of numbers.
  int32_t asked = -1;
  // kJoin: since this fork, by number, the program has changed nothing that the
  // state doesn't tell of.
  int32_t since = 0;
  // Its number among the run's states, and the tensors that it has, in order:
  // those that are own can be had by nobody else.
  struct Tensor {
    TapeTensorId id = kNoTapeTensor;
    bool is_own = false;
  };
  int32_t state = -1;
  std::vector<Tensor> tensors;
};

struct WayRun {
  std::shared_ptr<const Tape> tape;
  std::vector<WayEvent> events;  // In order.
  // Of each of Tape::states, by which it is known in all runs.
  std::vector<int64_t> states;

  // Calls [SegmentBegin(i), SegmentEnd(i)) come between events i - 1 and i.
  int32_t num_segments() const {
    return static_cast<int32_t>(events.size()) + 1;
  }
  int32_t SegmentBegin(int32_t segment) const {
    return segment == 0 ? 0 : events[segment - 1].calls;
  }
  int32_t SegmentEnd(int32_t segment) const {
    return segment + 1 == num_segments() ? NumCalls() : events[segment].calls;
  }
  // But for comparisons of numbers, which a tape has at its end.
  int32_t NumCalls() const;
  // What the value was that event `event`, a fork, read.
  const TapeValue& Outcome(int32_t event) const {
    return tape->calls[events[event].asked].outputs[0];
  }
  // How many forks come before event `event`.
  int32_t NumForks(int32_t event) const;
  // How many calls were made before a fork.
  int32_t CallsAtFork(int32_t fork) const;
};

// Whether two values that were read are one, bit for bit: NaN is itself, and
// the zeros are two.
bool IsSameOutcome(const TapeValue& a, const TapeValue& b);

// Whether a call of a tape compares numbers of Python's.
bool IsComparison(const TapeCall& call);

}  // namespace mica

#endif  // MICA_ANALYSIS_WAYS_WAY_RUN_H_
