// Runs a Program whose sizes depend on data, segment by segment.

#ifndef MICA_EXECUTOR_SEGMENT_RUN_H_
#define MICA_EXECUTOR_SEGMENT_RUN_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/plan/segments.h"
#include "executor/executor.h"
#include "framework/tensor/tensor.h"

namespace mica {

// Runs the head, feeds the rows that it has found to the rest. Each has an
// Executor of its own, so the rest, which may be cut again, is planned once for
// each number of rows, of as many as an Executor keeps Plans.
//
// Thread-safe.
class SegmentRun {
 public:
  using MakeExecutor = std::function<std::unique_ptr<Executor>()>;

  SegmentRun(Segments segments, const MakeExecutor& make_executor)
      : segments_(std::move(segments)),
        head_(make_executor()),
        rest_(make_executor()) {}

  // InvalidArgument, naming the op, if it finds another number of rows than
  // their symbol stands for. The head writes no input or variable: after an
  // error none is half updated.
  absl::StatusOr<std::vector<Tensor>> Run(const NamedViews& feeds,
                                          const NamedViews& variables,
                                          RunHandle* handle = nullptr);

 private:
  // The result's first rows, as many as were found.
  absl::StatusOr<TensorView> Found(const TensorView& result,
                                   int64_t num_rows) const;

  const Segments segments_;
  const std::unique_ptr<Executor> head_;
  const std::unique_ptr<Executor> rest_;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_SEGMENT_RUN_H_
