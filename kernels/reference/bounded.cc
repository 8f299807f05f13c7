// Results whose size depends on data, in room for the most that there can be.

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

void StoreCount(const Lane& count, int64_t number, void* const* args) {
  if (!count.IsUnused(args)) count.Store<int64_t>(args, 0, number);
}

Verdict PrepareNonzero(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane places = ResultLane(request, 0);
  const Lane count = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    int64_t number = 0;
    const bool is_used = !places.IsUnused(args);
    for (Odometer at(self.dims, {self.strides}); !at.done(); at.Next()) {
      if (!self.LoadTruth(args, at.offset(0))) continue;
      for (int i = 0; is_used && i < self.rank(); ++i) {
        places.Store<int64_t>(
            args, number * places.strides[0] + i * places.strides[1],
            at.index()[i]);
      }
      ++number;
    }
    StoreCount(count, number, args);
    for (int64_t row = number; is_used && row < places.dims[0]; ++row) {
      for (int i = 0; i < self.rank(); ++i) {
        places.Store<int64_t>(
            args, row * places.strides[0] + i * places.strides[1], 0);
      }
    }
    return true;
  });
}

Verdict PrepareMaskedSelect(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane mask = OperandLane(request, 1);
  const Lane chosen = ResultLane(request, 0);
  const Lane count = ResultLane(request, 1);
  // Of the two as they broadcast.
  const int rank = std::max(self.rank(), mask.rank());
  Dims dims(rank, 1);
  for (const Lane* lane : {&self, &mask}) {
    for (int i = 0; i < lane->rank(); ++i) {
      Dim& dim = dims[rank - lane->rank() + i];
      if (lane->dims[i] != 1) dim = lane->dims[i];
    }
  }
  const std::vector<Dims> strides = {BroadcastStrides(self, dims),
                                     BroadcastStrides(mask, dims)};
  return RunBody([=](void* const* args, LaunchContext&) {
    int64_t number = 0;
    const bool is_used = !chosen.IsUnused(args);
    const auto store = [&](auto value) {
      chosen.Store(args, number++ * chosen.strides[0], value);
    };
    for (Odometer at(dims, strides); !at.done(); at.Next()) {
      if (!mask.LoadTruth(args, at.offset(1))) continue;
      if (!is_used) {
        ++number;
      } else if (IsFloating(self.dtype)) {
        store(self.Load<double>(args, at.offset(0)));
      } else {
        store(self.Load<int64_t>(args, at.offset(0)));
      }
    }
    StoreCount(count, number, args);
    while (is_used && number < chosen.dims[0]) store(int64_t{0});
    return true;
  });
}

}  // namespace

void RegisterReferenceBounded(KernelRegistry& registry) {
  AddReference(registry, "mica.nonzero", PrepareNonzero);
  AddReference(registry, "mica.masked_select", PrepareMaskedSelect);
}

}  // namespace mica
