// The gradient of a convolution's weight by our own tiles.

#ifndef MICA_KERNELS_CPU_WEIGHT_GRADIENT_H_
#define MICA_KERNELS_CPU_WEIGHT_GRADIENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/kernel/kernel.h"

namespace mica::cpu {

// grad_weight[o, i, tap] is the sum over images and pixels of
// grad[n, o, pixel] x[n, i, pixel moved by the tap]: for each tap a product of
// a matrix of grad, as it lies, and one of x. That one is packed panel by
// panel of input channels, block by block of rows, once for each column of
// taps; taps of one column find theirs some rows further on.
class WeightGradient {
 public:
  // For aten.convolution_backward with plain images in float32. Nothing where
  // it wouldn't be faster than oneDNN: where that has AVX-512, on small images
  // and few channels.
  static std::optional<WeightGradient> Make(const KernelRequest& request);

  int64_t scratch_bytes() const;
  void Run(const float* grad, const float* x, float* grad_weight,
           float* scratch) const;

 private:
  // One axis of the window.
  struct Axis {
    int64_t in = 0, out = 0, taps = 0;
    int64_t step = 0, padding = 0, dilation = 0;
  };
  // Rows step apart from each other, from one on: those of some taps.
  struct Plane {
    int64_t phase = 0;
    int64_t more_rows = 0;  // Beyond a block's own, for the last tap.
    int64_t offset = 0;     // In a packed block, of the first column of taps.
  };

  int64_t pixels() const { return rows_.out * cols_.out; }
  int64_t taps() const { return rows_.taps * cols_.taps; }
  int64_t PlaneFloats(const Plane& plane) const;
  void AddPlanes();
  void PackRow(const float* x, int64_t channels, int64_t row, int64_t col_tap,
               float* to) const;
  void PackBlock(const float* x, int64_t channels, int64_t first_row,
                 int64_t rows, float* to) const;
  void AddBlock(const float* grad, const float* packed, int64_t rows,
                bool is_first, float* sums, float* copies) const;
  void RunPanel(const float* grad, const float* x, int64_t panel,
                float* grad_weight, float* scratch) const;

  Axis rows_, cols_;
  int64_t images_ = 0, in_channels_ = 0, out_channels_ = 0;
  int64_t block_rows_ = 0;
  std::vector<Plane> planes_;
  std::vector<int> plane_of_;  // Of a row of taps.
  int64_t packed_floats_ = 0, sums_floats_ = 0, copies_floats_ = 0;
  int num_threads_ = 1;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_WEIGHT_GRADIENT_H_
