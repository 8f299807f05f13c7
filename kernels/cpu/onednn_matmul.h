#ifndef MICA_KERNELS_CPU_ONEDNN_MATMUL_H_
#define MICA_KERNELS_CPU_ONEDNN_MATMUL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/tensor/dtype.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// c[batch, m, n] = act(a[batch, m, k] b[batch, k, n] + bias[n]) + residual, all
// float32, bfloat16 or float16, accumulated in float32. Strides are in
// elements: {batch, row, column}; a batch of 1 is a plain product. The residual
// lies as c does.
struct OneDnnMatmulSpec {
  DType dtype = DType::kF32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_strides[3] = {};
  int64_t b_strides[3] = {};
  int64_t c_strides[3] = {};
  bool has_bias = false;
  bool has_residual = false;
  Activation activation = Activation::kNone;
  // b is given in the library's own layout, as made by Pack().
  bool is_packed = false;
};

// A matrix product prepared by oneDNN. Immutable and thread-safe: what keeps
// addresses is in OneDnnMatmulRun, one for each Job.
class OneDnnMatmul {
 public:
  // Returns Internal, with the library's status, where it can't make one, and
  // Unimplemented where it would compute element by element: on this processor
  // nothing faster takes the types or the strides.
  static absl::StatusOr<std::shared_ptr<const OneDnnMatmul>> Create(
      const OneDnnMatmulSpec& spec);
  ~OneDnnMatmul();
  OneDnnMatmul(const OneDnnMatmul&) = delete;
  OneDnnMatmul& operator=(const OneDnnMatmul&) = delete;

  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t packed_bytes() const { return packed_bytes_; }
  // See PackRequest.
  std::string packed_layout() const;
  // Reads b as the spec's strides say, writes packed_bytes() at `to`.
  absl::Status Pack(const void* from, void* to) const;

 private:
  friend class OneDnnMatmulRun;
  OneDnnMatmul() = default;
  struct Handles;
  std::unique_ptr<Handles> handles_;
  OneDnnMatmulSpec spec_;
  int64_t scratch_bytes_ = 0;
  int64_t packed_bytes_ = 0;
};

// The handles of one Job. Single-thread; `matmul` must outlive it.
class OneDnnMatmulRun {
 public:
  static absl::StatusOr<std::unique_ptr<OneDnnMatmulRun>> Create(
      const OneDnnMatmul& matmul);
  ~OneDnnMatmulRun();
  OneDnnMatmulRun(const OneDnnMatmulRun&) = delete;
  OneDnnMatmulRun& operator=(const OneDnnMatmulRun&) = delete;

  // `bias` and `residual` are null where the spec has none. `scratch` holds
  // scratch_bytes() and is aligned to 64 bytes.
  absl::Status Run(const void* a, const void* b, const void* bias,
                   const void* residual, void* c, void* scratch);

 private:
  OneDnnMatmulRun() = default;
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ONEDNN_MATMUL_H_
