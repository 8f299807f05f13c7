#include "executor/segment_run.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "glog/logging.h"

namespace mica {

absl::StatusOr<TensorView> SegmentRun::Found(const TensorView& result,
                                             int64_t num_rows) const {
  const Dim wanted = segments_.result.dims[0];
  if (!IsSymbol(wanted) && wanted != num_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat(segments_.op, ": wants ", segments_.result.ToString(),
                     " by the size of another value, found ", num_rows,
                     num_rows == 1 ? " row" : " rows"));
  }
  TensorView found = result;
  CHECK_LE(num_rows, found.type.dims[0]);
  found.type.dims[0] = num_rows;
  return found;
}

absl::StatusOr<std::vector<Tensor>> SegmentRun::Run(const NamedViews& feeds,
                                                    const NamedViews& variables,
                                                    RunHandle* handle) {
  MICA_ASSIGN_OR_RETURN(
      const std::vector<Tensor> results,
      head_->Run(segments_.head, feeds, variables, {}, handle));
  const int64_t num_rows = *static_cast<const int64_t*>(results[1].data());
  NamedViews all = feeds;
  MICA_ASSIGN_OR_RETURN(all[segments_.carried[0]],
                        Found(results[0].view(), num_rows));
  for (size_t i = 1; i < segments_.carried.size(); ++i) {
    all[segments_.carried[i]] = results[i + 1].view();
  }
  return rest_->Run(segments_.rest, all, variables, {}, handle);
}

}  // namespace mica
