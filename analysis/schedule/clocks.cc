#include "analysis/schedule/clocks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mica {

absl::StatusOr<Clocks> Clocks::Build(const JobGraph& graph) {
  constexpr int64_t kMost = 1'000'000'000;
  const int devices = graph.num_devices();
  if (int64_t{devices} * graph.num_jobs() > kMost) {
    return absl::ResourceExhaustedError(
        absl::StrCat(graph.num_jobs(), " Jobs on ", devices, " devices"));
  }
  Clocks clocks(graph);
  clocks.ends_.resize(static_cast<size_t>(devices) * graph.num_jobs());
  for (const JobId id : graph.order()) {
    JobId* ends = clocks.ends_.data() + static_cast<size_t>(id) * devices;
    for (int device = 0; device < devices; ++device) {
      ends[device] = graph.begin(device);
    }
    const auto follow = [&](JobId before) {
      const JobId* known = clocks.At(before);
      for (int device = 0; device < devices; ++device) {
        ends[device] = std::max(ends[device], known[device]);
      }
      JobId& end = ends[graph.device(before)];
      end = std::max(end, before + 1);
    };
    if (id != graph.begin(graph.device(id))) follow(id - 1);
    for (const JobId input : graph.inputs(id)) follow(input);
  }
  return clocks;
}

JobId Clocks::FirstAfter(JobId job, int device) const {
  JobId begin = graph_->begin(device);
  JobId end = graph_->end(device);
  while (begin < end) {
    const JobId middle = begin + (end - begin) / 2;
    if (HasEnded(job, middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return end;
}

}  // namespace mica
