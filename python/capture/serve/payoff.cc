#include "python/capture/serve/payoff.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace mica {
namespace {

// Captures that are made whatever they cost: a training step with a schedule of
// rates takes six until nothing is new.
constexpr int64_t kFreeCaptures = 8;
// Captures that served the next call, and so don't count.
constexpr int kMaxUseful = 16;
// Of the time that calls take, the share that may go into captures.
constexpr double kShare = 0.04;
// Of a watched run whose callable never ran eagerly, the share that is
// watching.
constexpr double kWatching = 0.75;
constexpr int64_t kMaxWait = 4096;
// Calls behind a verdict, and how much slower than eager ones they have to be.
constexpr double kWindow = 32;
constexpr double kSlower = 1.1;
// Of an eager call, the share that finding no record may take.
constexpr double kLooking = 0.08;

}  // namespace

int64_t RecentTimes::Median() const {
  const auto n = std::min<int64_t>(count_, times_.size());
  if (n == 0) return 0;
  auto sorted = times_;
  std::sort(sorted.begin(), sorted.begin() + n);
  return sorted[n / 2];
}

std::string Payoff::WhyIdle(int num_idle) {
  return absl::StrFormat("its last %d captures never fitted a later call",
                         num_idle);
}

void Payoff::NoteEager(int64_t ns) {
  last_capture_ns_ = 0;
  eager_.Add(ns);
  eager_ns_ += static_cast<double>(ns);
}

void Payoff::NoteServed(int64_t ns, int64_t num_calls) {
  served_.Add(ns);
  served_ns_ += static_cast<double>(ns * num_calls);
  num_served_ += static_cast<double>(num_calls);
  window_served_ += static_cast<double>(num_calls);
  Judge();
}

void Payoff::NoteMissed(int64_t ns) {
  missed_.Add(ns);
  ++window_missed_;
  Judge();
}

void Payoff::NoteCapture(int64_t ns) {
  ++num_captures_;
  capture_ns_ += static_cast<double>(ns);
  last_capture_ns_ = ns;
  refused_ = 0;
}

void Payoff::NoteInvested(int64_t ns) {
  capture_ns_ += static_cast<double>(ns);
  window_invested_ns_ += static_cast<double>(ns);
}

void Payoff::NoteHit(bool is_of_last) {
  refused_ = 0;
  wait_ = kFirstWait;
  stable_ = kStable;
  const int64_t ns = std::exchange(last_capture_ns_, 0);
  if (!is_of_last || ns == 0 || num_useful_ == kMaxUseful) return;
  ++num_useful_;
  --num_captures_;
  capture_ns_ -= static_cast<double>(ns);
}

double Payoff::Overhead() const {
  if (eager_.count() == 0) return kWatching * capture_ns_;
  const auto one = static_cast<double>(eager_.Median());
  return std::max(0.0, capture_ns_ - static_cast<double>(num_captures_) * one);
}

double Payoff::Allowance() const {
  const double without = num_served_ * static_cast<double>(eager_.Median());
  const double gained = eager_.count() == 0 ? 0 : without - served_ns_;
  return budget_ + std::max(0.0, gained) + kShare * (eager_ns_ + served_ns_);
}

bool Payoff::MayCapture(int num_idle, absl::string_view what) {
  alike_ = what == last_what_ ? alike_ + 1 : 1;
  last_what_ = std::string(what);
  const bool is_idle = num_idle >= kMaxIdle;
  const bool is_affordable = num_captures_ < kFreeCaptures || IsAffordable();
  if ((is_affordable && !is_idle) || IsTriedAgain(is_affordable)) {
    why_.clear();
    return true;
  }
  why_ = is_idle
             ? WhyIdle(num_idle)
             : absl::StrFormat(
                   "its %d captures took %.2g s, and that isn't made up for",
                   num_captures_, capture_ns_ * 1e-9);
  return false;
}

// Should that serve nothing either, it takes longer the next time.
bool Payoff::IsTriedAgain(bool is_affordable) {
  if (alike_ >= stable_) {
    stable_ = std::min<int>(2 * stable_, kMaxWait);
    alike_ = 0;
    return true;
  }
  if (!is_affordable || ++refused_ < wait_) return false;
  wait_ = std::min(2 * wait_, kMaxWait);
  return true;
}

void Payoff::Judge() {
  if (window_served_ + window_missed_ < kWindow) return;
  if (eager_.count() < kMinEager) return;
  const auto eager = static_cast<double>(eager_.Median());
  const auto served = static_cast<double>(served_.Median());
  const auto missed = static_cast<double>(missed_.Median());
  const double spent = window_served_ * served + window_missed_ * missed +
                       (IsAffordable() ? 0 : window_invested_ns_);
  const double worth =
      eager * (kSlower * window_served_ + kLooking * window_missed_);
  if (spent > worth) {
    resting_ = rest_;
    rest_ = std::min(2 * rest_, kMaxWait);
    why_ =
        window_served_ > 0
            ? absl::StrFormat("a served call takes %.3g ms, an eager one %.3g",
                              spent / window_served_ * 1e-6, eager * 1e-6)
            : absl::StrFormat(
                  "to find that nothing serves a call takes %.3g ms, an "
                  "eager call %.3g",
                  missed * 1e-6, eager * 1e-6);
    served_.Clear();
    missed_.Clear();
  } else if (window_served_ > window_missed_) {
    rest_ = kFirstRest;
  }
  window_served_ = window_missed_ = 0;
  window_invested_ns_ = 0;
}

bool Payoff::MayServe() {
  if (resting_ == 0) return true;
  if (--resting_ > 0) return false;
  why_.clear();
  return true;
}

}  // namespace mica
