#include "kernels/cpu/image.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Planes whose columns follow each other, to pixels of which the channels do;
// or back, with the roles changed.
void CopyPlaneRows(const float* from, int64_t from_stride, float* to,
                   int64_t to_stride, int64_t rows, int64_t cols) {
  Simd().transpose32(from, from_stride, to, to_stride, rows, cols);
}

// Images begin..end.
void CopyImages(const float* from, const Image& a, float* to, const Image& b,
                int64_t begin, int64_t end) {
  const bool to_pixels = a.w_stride == 1 && b.HasChannelsLast();
  const bool to_planes = a.HasChannelsLast() && b.w_stride == 1;
  const bool one_run = a.HasOneRun() && b.HasOneRun();
  const int64_t rows = one_run ? 1 : a.h;
  const int64_t cols = one_run ? a.h * a.w : a.w;
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t h = 0; h < rows; ++h) {
      const float* x = from + n * a.n_stride + h * a.h_stride;
      float* y = to + n * b.n_stride + h * b.h_stride;
      if (to_pixels) {
        CopyPlaneRows(x, a.c_stride, y, b.w_stride, a.c, cols);
      } else if (to_planes) {
        CopyPlaneRows(x, a.w_stride, y, b.c_stride, cols, a.c);
      } else if (a.HasChannelsLast() && b.HasChannelsLast()) {
        for (int64_t w = 0; w < cols; ++w) {
          std::copy_n(x + w * a.w_stride, a.c, y + w * b.w_stride);
        }
      } else {
        for (int64_t w = 0; w < cols; ++w) {
          for (int64_t c = 0; c < a.c; ++c) {
            y[w * b.w_stride + c * b.c_stride] =
                x[w * a.w_stride + c * a.c_stride];
          }
        }
      }
    }
  }
}

}  // namespace

std::optional<int64_t> Image::PixelStride() const {
  if (!HasChannelsLast()) return std::nullopt;
  int64_t stride = 0, count = 1;
  for (const auto& [size, step] :
       {std::pair(w, w_stride), std::pair(h, h_stride),
        std::pair(n, n_stride)}) {
    if (size == 1) continue;
    if (stride == 0) stride = step;
    if (step != stride * count) return std::nullopt;
    count *= size;
  }
  if (stride == 0) return c;
  if (stride < c) return std::nullopt;
  return stride;
}

Image ImageOf(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  if (type.rank() == 3) {
    return {.n = type.dims[0],
            .c = type.dims[1],
            .w = type.dims[2],
            .n_stride = strides[0],
            .c_stride = strides[1],
            .w_stride = strides[2]};
  }
  return {.n = type.dims[0],
          .c = type.dims[1],
          .h = type.dims[2],
          .w = type.dims[3],
          .n_stride = strides[0],
          .c_stride = strides[1],
          .h_stride = strides[2],
          .w_stride = strides[3]};
}

Image PixelMajor(int64_t n, int64_t c, int64_t h, int64_t w) {
  return {.n = n,
          .c = c,
          .h = h,
          .w = w,
          .n_stride = h * w * c,
          .c_stride = 1,
          .h_stride = w * c,
          .w_stride = c};
}

void CopyImage(const float* from, const Image& a, float* to, const Image& b,
               int num_threads) {
  Parallel(UsefulThreads(num_threads, a.elements()), a.n,
           [&](int64_t begin, int64_t end) {
             CopyImages(from, a, to, b, begin, end);
           });
}

void CopyPixels(const float* from, int64_t begin, int64_t end, float* to,
                const Image& to_image) {
  const int64_t pixels = to_image.h * to_image.w;
  while (begin < end) {
    const int64_t image = begin / pixels;
    const int64_t count = std::min(end, (image + 1) * pixels) - begin;
    Image part = to_image;
    part.n = part.h = 1;
    part.w = count;
    CopyImage(from, PixelMajor(1, part.c, 1, count),
              to + image * to_image.n_stride +
                  (begin - image * pixels) * to_image.w_stride,
              part);
    from += count * part.c;
    begin += count;
  }
}

void CopyRowMajor(const TensorType& type, const float* from, float* to) {
  const Image lies = ImageOf(type);
  Image rows = lies;
  rows.w_stride = 1;
  rows.h_stride = rows.w;
  rows.c_stride = rows.h * rows.w;
  rows.n_stride = rows.c * rows.c_stride;
  CopyImage(from, lies, to, rows);
}

const float* RowMajor(const TensorType& type, const float* from,
                      std::vector<float>& copy) {
  if (type.is_row_major()) return from;
  copy.resize(type.num_elements());
  CopyRowMajor(type, from, copy.data());
  return copy.data();
}

}  // namespace mica::cpu
