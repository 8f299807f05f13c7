// How long the hits of a record take, and what is done for later ones.

#ifndef MICA_PYTHON_CAPTURE_RECORD_HIT_TIMES_H_
#define MICA_PYTHON_CAPTURE_RECORD_HIT_TIMES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace mica {

// The fastest of those hits that were measured: the first ones and then each
// 64th, since two looks at the clock cost as much as a guard.
struct HitTimes {
  int64_t num_measured = 0;
  int64_t fastest_ns = 0;

  static bool Wants(int64_t hits) { return hits < 16 || hits % 64 == 0; }
  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void Add(int64_t ns) {
    fastest_ns = num_measured == 0 ? ns : std::min(fastest_ns, ns);
    ++num_measured;
  }
};

// What this process has spent, in calls that are served, on what serves later
// ones: runs at other sizes, and captures of pieces. Needs the GIL.
class Invested {
 public:
  static int64_t total_ns() { return total_ns_; }
  // Adds its own lifetime.
  Invested() : start_(HitTimes::Now()) {}
  ~Invested() { total_ns_ += HitTimes::Now() - start_; }
  Invested(const Invested&) = delete;
  Invested& operator=(const Invested&) = delete;

 private:
  static inline int64_t total_ns_ = 0;
  const int64_t start_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_HIT_TIMES_H_
