#include "kernels/cpu/axes.h"

#include <algorithm>
#include <variant>

namespace mica::cpu {
namespace {

absl::InlinedVector<int64_t, 5> BroadcastStrides(const TensorType* type,
                                                 int rank) {
  absl::InlinedVector<int64_t, 5> strides(rank, 0);
  if (type == nullptr) return strides;
  const Dims own = type->EffectiveStrides();
  for (int i = 0; i < type->rank(); ++i) {
    if (type->dims[i] != 1) strides[rank - type->rank() + i] = own[i];
  }
  return strides;
}

bool IsOneDimension(const Axes& axes, size_t outer) {
  return std::all_of(
      axes.strides.begin(), axes.strides.end(), [&](const auto& strides) {
        return strides[outer] == strides[outer + 1] * axes.sizes[outer + 1];
      });
}

void Join(Axes& axes) {
  for (size_t i = axes.sizes.size(); i-- > 1;) {
    if (!IsOneDimension(axes, i - 1)) continue;
    axes.sizes[i - 1] *= axes.sizes[i];
    axes.sizes.erase(axes.sizes.begin() + i);
    for (auto& strides : axes.strides) {
      strides[i - 1] = strides[i];
      strides.erase(strides.begin() + i);
    }
  }
}

}  // namespace

Axes JoinedAxes(absl::Span<const Dim> dims,
                absl::Span<const TensorType* const> arrays) {
  const int rank = static_cast<int>(dims.size());
  std::vector<absl::InlinedVector<int64_t, 5>> all;
  for (const TensorType* type : arrays) {
    all.push_back(BroadcastStrides(type, rank));
  }
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] != 1) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return all[0][a] > all[0][b]; });
  Axes axes;
  axes.strides.resize(arrays.size());
  for (int i : order) {
    axes.sizes.push_back(dims[i]);
    for (size_t a = 0; a < arrays.size(); ++a) {
      axes.strides[a].push_back(all[a][i]);
    }
  }
  Join(axes);
  return axes;
}

std::vector<bool> MarkedAxes(const KernelRequest& request, int param,
                             int rank) {
  std::vector<bool> marked(rank, true);
  if (param < 0 || !request.Has(param)) return marked;
  std::vector<int64_t> axes;
  const Argument& argument = (*request.arguments)[param];
  if (const auto* one = std::get_if<int64_t>(&argument)) {
    axes = {*one};
  } else {
    const auto list = request.Ints(param);
    axes.assign(list.begin(), list.end());
  }
  if (axes.empty()) return marked;
  marked.assign(rank, false);
  for (int64_t axis : axes) {
    if (rank > 0) marked[axis < 0 ? axis + rank : axis] = true;
  }
  return marked;
}

int64_t AxisList::count() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

int64_t AxisList::OffsetOf(size_t array, int64_t place) const {
  int64_t offset = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    offset += place % sizes[d] * steps[array][d];
    place /= sizes[d];
  }
  return offset;
}

}  // namespace mica::cpu
