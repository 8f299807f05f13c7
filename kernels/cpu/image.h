// Batches of images: tensors [n, c, h, w], whatever their strides.

#ifndef MICA_KERNELS_CPU_IMAGE_H_
#define MICA_KERNELS_CPU_IMAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/tensor/tensor_type.h"

namespace mica::cpu {

// Sizes and strides, in elements, of [n, c, h, w]. A tensor [n, c, w] has one
// row, [c, h, w] one image.
struct Image {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t n_stride = 0, c_stride = 0, h_stride = 0, w_stride = 0;

  int64_t pixels() const { return n * h * w; }
  int64_t elements() const { return pixels() * c; }
  // True if a pixel's channels follow each other.
  bool HasChannelsLast() const { return c == 1 || c_stride == 1; }
  // True if all pixels of one image are one run with distance w_stride.
  bool HasOneRun() const { return h == 1 || h_stride == w * w_stride; }
  // The elements from one pixel to the next if channels are last and pixels
  // follow each other in order, image by image, at equal distances.
  std::optional<int64_t> PixelStride() const;
};

// The image that a tensor of rank 3 [n, c, w] or 4 is.
Image ImageOf(const TensorType& type);
// Dense, channels last.
Image PixelMajor(int64_t n, int64_t c, int64_t h, int64_t w);

// Copies elements between images of one size; several images by as many
// threads.
void CopyImage(const float* from, const Image& from_image, float* to,
               const Image& to_image, int num_threads = 1);

// Copies pixels begin..end, counted row by row and image by image, from where
// they lie one after another with their channels. Requires HasOneRun().
void CopyPixels(const float* from, int64_t begin, int64_t end, float* to,
                const Image& to_image);

// A row-major copy of a tensor of rank 3 or 4.
void CopyRowMajor(const TensorType& type, const float* from, float* to);

// The tensor's elements row-major: `from` itself, or what `copy` then holds.
const float* RowMajor(const TensorType& type, const float* from,
                      std::vector<float>& copy);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_IMAGE_H_
