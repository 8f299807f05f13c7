// Convolution with 3 by 3 taps by Winograd's method.

#ifndef MICA_KERNELS_CPU_WINOGRAD_H_
#define MICA_KERNELS_CPU_WINOGRAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/image.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// Takes images of any layout, those whose channels aren't last by a copy in its
// scratch memory; or, with the taps turned, the gradient of a result to that of
// x. Its rounding error is relative to the largest number that a window sees,
// about that of the plain convolution twice.
class WinogradConvolution {
 public:
  struct Form {
    Image x, out;
    TensorType weight;  // As given: [out.c, x.c, 3, 3].
    int64_t row_padding = 0, col_padding = 0;
    // The weight is [x.c, out.c, 3, 3], and its taps are in reverse order.
    bool is_turned = false;
    bool is_packed = false;  // The weight comes from Pack().
    std::optional<Image> residual;
    Activation activation = Activation::kNone;
    int num_threads = 1;
  };
  struct Operands {
    const float* x = nullptr;
    const float* weight = nullptr;
    const float* bias = nullptr;
    const float* residual = nullptr;
    float* out = nullptr;
  };

  // Tells why not, if it doesn't take that form, or if the plain convolution
  // is faster.
  std::optional<std::string> Set(const Form& form);

  // The result is written after all else was read.
  bool stages_out() const { return out_part_.floats > 0; }
  int64_t packed_bytes() const;
  void Pack(const float* weight, float* packed) const;
  // See PackRequest.
  std::string packed_layout() const;
  int64_t scratch_bytes() const { return scratch_floats_ * sizeof(float); }
  void Run(const Operands& operands, float* scratch) const;

 private:
  // A part of the scratch memory, in floats from its start.
  struct Part {
    int64_t offset = 0, floats = 0;
  };

  int64_t channels() const { return form_.x.c; }
  int64_t columns() const { return form_.out.c; }
  int64_t panels() const;
  // The packed weight: the transformed one, then the plain one.
  int64_t transformed_floats() const;
  int64_t plain_floats() const;
  std::optional<std::string> SetImages();
  bool Pays() const;
  Part Reserve(int64_t floats);
  void PackRowMajor(const float* weight, float* packed) const;
  void RunPatches(const WinogradArgs& whole, float* scratch) const;

  Form form_;
  WinogradArgs args_;  // Addresses, begin and end are missing.
  Image staged_x_, staged_out_;
  int64_t patches_ = 0;
  int64_t scratch_each_ = 0;  // Floats, of a thread.
  // Parts that aren't needed have no floats.
  Part x_part_, out_part_, weight_part_, row_major_part_, work_part_;
  int64_t scratch_floats_ = 0;
  std::vector<float> zeros_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_WINOGRAD_H_
