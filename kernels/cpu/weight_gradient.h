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
// taps; taps of one column find theirs some rows further on. A block has
// several small images: grad is joined for that, and x packed for each tap.
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
  // Rows of x step apart from each other, for some rows of taps.
  struct Plane {
    int64_t first = 0;      // Of the result's first row; may lie outside.
    int64_t more_rows = 0;  // Beyond a block's own, for the last row of taps.
    int64_t offset = 0;     // In a packed block, of the first column of taps.
  };
  struct RowTap {
    int plane = 0;
    int64_t row = 0;  // Of the plane.
  };
  // Of images, all rows; or of one image, some.
  struct Block {
    int64_t image = 0, images = 1;
    int64_t row = 0, rows = 0;
  };

  int64_t pixels() const { return rows_.out * cols_.out; }
  int64_t taps() const { return rows_.taps * cols_.taps; }
  int64_t PlaneFloats(const Plane& plane) const;
  void AddPlanes();
  void JoinImages(const float* grad, float* joined) const;
  void PackRow(const float* x, int64_t channels, int64_t row, int64_t col_tap,
               float* to) const;
  void PackBlock(const float* x, int64_t channels, const Block& block,
                 float* to) const;
  void AddBlock(const float* grad, const float* packed, const Block& block,
                float* sums, float* copies) const;
  void RunPanel(const float* grad, const float* x, int64_t panel,
                float* grad_weight, float* scratch) const;

  Axis rows_, cols_;
  int64_t images_ = 0, in_channels_ = 0, out_channels_ = 0;
  int64_t block_images_ = 1, block_rows_ = 0;  // Of a whole block.
  std::vector<Plane> planes_;
  std::vector<RowTap> row_taps_;
  int64_t packed_floats_ = 0, sums_floats_ = 0, copies_floats_ = 0;
  int64_t joined_floats_ = 0;  // Of grad, shared by the threads.
  int num_threads_ = 1;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_WEIGHT_GRADIENT_H_
