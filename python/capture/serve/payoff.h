// Whether what is recorded pays.

#ifndef MICA_PYTHON_CAPTURE_SERVE_PAYOFF_H_
#define MICA_PYTHON_CAPTURE_SERVE_PAYOFF_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace mica {

// The last times of calls of one kind.
class RecentTimes {
 public:
  void Add(int64_t ns) { times_[count_++ % times_.size()] = ns; }
  int64_t count() const { return count_; }
  // 0 without any.
  int64_t Median() const;
  void Clear() { count_ = 0; }

 private:
  std::array<int64_t, 8> times_ = {};
  int64_t count_ = 0;
};

// An account, in nanoseconds, of one callable's calls: what captures cost
// beyond eager calls, and what served calls gained. Two questions are decided
// by it.
//
// Is a call that nothing serves worth a capture? A few that serve the next call
// are, as many as records are kept, and of others the first ones, and as long
// as all of them cost no more than a budget, what was gained, and a small share
// of the time that calls took; unless none of many in a row ever served a call.
// What isn't worth one runs eagerly. It is tried again, at longer and longer
// intervals, and once calls miss on the same thing with the same value: then a
// capture is likely to serve the next one.
//
// Is a call to be served at all? Not for a while, if finding what serves it and
// serving it takes longer than eager calls do; then it is tried again. Known
// only of what ran eagerly, too.
class Payoff {
 public:
  // Captures in a row, none of which ever served a call, after which it waits.
  static constexpr int kMaxIdle = 24;
  // Why, of so many.
  static std::string WhyIdle(int num_idle);

  explicit Payoff(double budget_seconds) : budget_(budget_seconds * 1e9) {}

  // A call took so long: run eagerly; served, which is measured for `num_calls`
  // like it; until it was found that nothing serves it; watched and recorded.
  void NoteEager(int64_t ns);
  void NoteServed(int64_t ns, int64_t num_calls);
  void NoteMissed(int64_t ns);
  void NoteCapture(int64_t ns);
  // A served call took so long beside what serving took, for what serves later
  // ones: it counts as captures do, and against serving once that isn't
  // affordable.
  void NoteInvested(int64_t ns);
  // A record served a call; `is_of_last`: the one that was made last, for the
  // first time.
  void NoteHit(bool is_of_last);

  // Whether a call is worth a capture that misses on `what`, with that value.
  // `num_idle` captures in a row have served no call.
  bool MayCapture(int num_idle, absl::string_view what);
  // Whether the next call is to be served, if something does.
  bool MayServe();
  // Of a callable of which it is to be asked whether serving it pays: whether
  // the next call is to be run eagerly, as it isn't known what that takes.
  bool WantsEager() const {
    return served_.count() >= kServedFirst && eager_.count() < kMinEager;
  }
  // Why not, for the user; empty if calls are captured and served.
  const std::string& why() const { return why_; }

 private:
  static constexpr int64_t kFirstWait = 64;  // Calls that weren't worth one.
  static constexpr int kStable = 3;          // Calls that missed alike.
  static constexpr int64_t kFirstRest = 64;  // Calls that aren't served.
  static constexpr int64_t kServedFirst = 12;
  static constexpr int64_t kMinEager = 4;

  // MayCapture() of calls that aren't simply affordable.
  bool IsTriedAgain(bool is_affordable);
  double Overhead() const;
  double Allowance() const;
  bool IsAffordable() const { return Overhead() <= Allowance(); }
  void Judge();

  double budget_;
  // Medians, as one call that the machine interrupts says nothing.
  RecentTimes eager_, served_, missed_;
  int64_t num_captures_ = 0;  // That count.
  double capture_ns_ = 0;
  int64_t last_capture_ns_ = 0;  // 0 once another call came.
  int num_useful_ = 0;           // Of those that don't count.
  // All calls, those that were served with their number.
  double eager_ns_ = 0, served_ns_ = 0, num_served_ = 0;
  // Since they were last judged.
  double window_served_ = 0, window_missed_ = 0;
  double window_invested_ns_ = 0;
  // Captures that weren't made, since a call was served or one was made.
  int64_t refused_ = 0;
  int64_t wait_ = kFirstWait;
  std::string last_what_;
  int alike_ = 0;  // In a row.
  int stable_ = kStable;
  int64_t resting_ = 0;
  int64_t rest_ = kFirstRest;
  std::string why_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_PAYOFF_H_
