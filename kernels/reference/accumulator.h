// Sums that end in a tensor's elements, kept in double until they are stored.

#ifndef MICA_KERNELS_REFERENCE_ACCUMULATOR_H_
#define MICA_KERNELS_REFERENCE_ACCUMULATOR_H_

#include <algorithm>
#include <cstdint>
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

// Runs `body(lane, args)`, which reads and writes the result through them. One
// of 16-bit floats is kept in float meanwhile and rounded once.
template <typename Body>
bool WithWideResult(const Lane& out, void* const* args, Body&& body) {
  if (out.dtype != DType::kBF16 && out.dtype != DType::kF16) {
    return body(out, args);
  }
  int64_t extent = 0;  // None if a dim is 0, however large the others are.
  if (out.num_elements() > 0) {
    extent = 1;
    for (int i = 0; i < out.rank(); ++i) {
      extent += (out.dims[i] - 1) * out.strides[i];
    }
  }
  std::vector<float> numbers(extent);
  std::vector<void*> wide_args(args, args + out.arg + 1);
  wide_args[out.arg] = numbers.data();
  Lane wide = out;
  wide.dtype = DType::kF32;
  if (!body(wide, wide_args.data())) return false;
  for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
    out.Store(args, at.offset(0), numbers[at.offset(0)]);
  }
  return true;
}

// Which results a backward was asked for, by the output mask `param`.
inline const std::vector<bool>& OutputMask(const KernelRequest& request,
                                           int param) {
  return std::get<std::vector<bool>>((*request.arguments)[param]);
}

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_ACCUMULATOR_H_
