#include "kernels/reference/axes.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "kernels/reference/strided.h"

namespace mica {

AxisMask ReducedMask(const KernelRequest& request, AxesOf axes, int rank) {
  if (axes.dim < 0 || !request.Has(axes.dim)) return AxisMask(rank, true);
  const Argument& argument = (*request.arguments)[axes.dim];
  absl::InlinedVector<int64_t, 5> list;
  if (const auto* one = std::get_if<int64_t>(&argument)) {
    list.push_back(*one);
  } else {
    list.assign(request.Ints(axes.dim).begin(), request.Ints(axes.dim).end());
    if (list.empty()) return AxisMask(rank, !axes.empty_is_none);
  }
  AxisMask mask(std::max(rank, 1), false);
  for (int64_t axis : list) mask[AxisIndex(axis, rank)] = true;
  mask.resize(rank);
  return mask;
}

}  // namespace mica
