// Which steps must come after which, for what they read and write.

#ifndef MICA_ANALYSIS_STREAMS_HAZARDS_H_
#define MICA_ANALYSIS_STREAMS_HAZARDS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/base/large_vector.h"

namespace mica {

// Bytes of one address space that a step reads or writes.
struct Access {
  int32_t space = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool is_write = false;
};

// The accesses of a list of steps, step after step. A step that reads and
// writes the same bytes has both.
class StepAccesses {
 public:
  // Room for about so many, so that large lists aren't moved as they grow.
  void Reserve(size_t num_steps, size_t num_accesses) {
    ends_.reserve(num_steps);
    accesses_.reserve(num_accesses);
  }
  // Ends the step whose accesses were added since the last call.
  void EndStep() { ends_.push_back(static_cast<int32_t>(accesses_.size())); }
  void Add(const Access& access) { accesses_.push_back(access); }

  int32_t num_steps() const { return static_cast<int32_t>(ends_.size()); }
  absl::Span<const Access> of(int32_t step) const {
    const int32_t begin = step == 0 ? 0 : ends_[step - 1];
    return absl::MakeConstSpan(accesses_).subspan(begin, ends_[step] - begin);
  }

 private:
  LargeVector<Access> accesses_;
  LargeVector<int32_t> ends_;
};

// For each step the earlier steps that it must come after, in order, each once.
class StepGraph {
 public:
  int32_t num_steps() const { return static_cast<int32_t>(ends_.size()); }
  absl::Span<const int32_t> before(int32_t step) const {
    const int32_t begin = step == 0 ? 0 : ends_[step - 1];
    return absl::MakeConstSpan(before_).subspan(begin, ends_[step] - begin);
  }
  // Adds the next step. `before` in any order, with repeats.
  void AddStep(std::vector<int32_t> before);

 private:
  LargeVector<int32_t> before_;
  LargeVector<int32_t> ends_;
};

// A step comes after the last that wrote what it reads (data), and after those
// that read or wrote what it overwrites since (reuse). Near linear in the
// number of accesses.
StepGraph FindHazards(const StepAccesses& accesses);

}  // namespace mica

#endif  // MICA_ANALYSIS_STREAMS_HAZARDS_H_
