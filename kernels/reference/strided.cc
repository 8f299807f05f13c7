#include "kernels/reference/strided.h"

#include <algorithm>
#include <memory>

namespace mica {
namespace {

Lane MakeLane(int arg, const TensorType& type) {
  return Lane{.arg = arg,
              .dtype = type.dtype,
              .dims = type.dims,
              .strides = type.EffectiveStrides()};
}

bool Launch(const void* state, void* const* args, LaunchContext& context) {
  return (*static_cast<const LaunchBody*>(state))(args, context);
}

Dims Filtered(const Dims& list, absl::Span<const bool> marked, bool wanted) {
  Dims result;
  for (size_t i = 0; i < list.size(); ++i) {
    if (marked[i] == wanted) result.push_back(list[i]);
  }
  return result;
}

}  // namespace

int64_t Lane::num_elements() const {
  int64_t count = 1;
  for (Dim dim : dims) count *= dim;
  return count;
}

Lane OperandLane(const KernelRequest& request, int param, int item) {
  const int index = request.OperandIndex(param) + item;
  return MakeLane(index, request.operands[index].type);
}

Lane ResultLane(const KernelRequest& request, int result) {
  const int arg = static_cast<int>(request.operands.size()) + result;
  return MakeLane(arg, request.results[result].type);
}

Dims BroadcastStrides(const Lane& lane, absl::Span<const Dim> dims) {
  Dims strides(dims.size(), 0);
  const int added = static_cast<int>(dims.size()) - lane.rank();
  for (int i = 0; i < lane.rank(); ++i) {
    if (lane.dims[i] != 1) strides[i + added] = lane.strides[i];
  }
  return strides;
}

Odometer::Odometer(absl::Span<const Dim> dims, absl::Span<const Dims> strides)
    : dims_(dims.begin(), dims.end()),
      strides_(strides.begin(), strides.end()),
      index_(dims.size(), 0),
      offsets_(strides.size(), 0),
      done_(std::find(dims.begin(), dims.end(), 0) != dims.end()) {}

void Odometer::Next() {
  for (int axis = static_cast<int>(dims_.size()) - 1; axis >= 0; --axis) {
    if (++index_[axis] < dims_[axis]) {
      for (size_t i = 0; i < offsets_.size(); ++i) {
        offsets_[i] += strides_[i][axis];
      }
      return;
    }
    for (size_t i = 0; i < offsets_.size(); ++i) {
      offsets_[i] -= (dims_[axis] - 1) * strides_[i][axis];
    }
    index_[axis] = 0;
  }
  done_ = true;
}

Dims Unmarked(const Dims& list, absl::Span<const bool> marked) {
  return Filtered(list, marked, false);
}

Dims Marked(const Dims& list, absl::Span<const bool> marked) {
  return Filtered(list, marked, true);
}

AxisLane SplitAxis(Lane lane, int axis) {
  AxisLane split;
  if (lane.rank() > 0) {
    split.size = lane.dims[axis];
    split.stride = lane.strides[axis];
    lane.dims.erase(lane.dims.begin() + axis);
    lane.strides.erase(lane.strides.begin() + axis);
  }
  split.outer = std::move(lane);
  return split;
}

Prepared RunBody(LaunchBody body) {
  return Prepared{.launch = Launch,
                  .state = std::make_shared<const LaunchBody>(std::move(body))};
}

}  // namespace mica
