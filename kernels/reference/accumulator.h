// Sums that end in a tensor's elements, kept in double until they are stored.

#ifndef MICA_KERNELS_REFERENCE_ACCUMULATOR_H_
#define MICA_KERNELS_REFERENCE_ACCUMULATOR_H_

#include <vector>

#include "kernels/reference/strided.h"

namespace mica {

// One sum for each element of a result. Offsets count in strides().
class Accumulator {
 public:
  explicit Accumulator(const Lane& lane)
      : lane_(lane),
        strides_(RowMajorStrides(lane.dims)),
        sums_(lane.num_elements(), 0.0) {}

  const Dims& strides() const { return strides_; }
  void Add(int64_t offset, double value) { sums_[offset] += value; }

  // Rounds each sum once. Nothing happens where nobody reads the result.
  void Store(void* const* args) const {
    if (lane_.IsUnused(args)) return;
    for (Odometer at(lane_.dims, {strides_, lane_.strides}); !at.done();
         at.Next()) {
      lane_.Store(args, at.offset(1), sums_[at.offset(0)]);
    }
  }

 private:
  Lane lane_;
  Dims strides_;
  std::vector<double> sums_;
};

// Which results a backward was asked for, by the output mask `param`.
inline const std::vector<bool>& OutputMask(const KernelRequest& request,
                                           int param) {
  return std::get<std::vector<bool>>((*request.arguments)[param]);
}

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_ACCUMULATOR_H_
