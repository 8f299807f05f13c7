// Matrix products by cuBLASLt.

#ifndef MICA_KERNELS_CUDA_BLAS_H_
#define MICA_KERNELS_CUDA_BLAS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/tensor/dtype.h"
#include "kernels/cuda/driver.h"

namespace mica::cuda {

// A matrix in memory, of elements whose columns follow each other: element
// (row, column) lies at row + column * stride, or, if it is transposed, at
// column + row * stride.
struct BlasMatrix {
  int64_t stride = 0;
  bool is_transposed = false;
  int64_t batch_stride = 0;
};

enum class Epilogue : uint8_t { kNone, kRelu, kBias, kReluBias };

// out = alpha * a * b + beta * c, [rows, inner] times [inner, columns], `batch`
// times. The bias has an element for each row, and the result's dtype.
struct BlasProduct {
  DType dtype = DType::kF32;      // Of a and b.
  DType out_dtype = DType::kF32;  // Of c and the result: the same, or f32.
  int64_t rows = 0, columns = 0, inner = 0, batch = 1;
  BlasMatrix a, b, c, out;
  double alpha = 1, beta = 0;
  Epilogue epilogue = Epilogue::kNone;
  // Of all addresses, in bytes: a power of two, 256 at most.
  int64_t alignment = 256;
};

struct BlasArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // Of no matter if beta is 0.
  const void* bias = nullptr;
  void* out = nullptr;
};

// A product for which cuBLASLt has chosen how. Thread-safe.
class BlasPlan {
 public:
  ~BlasPlan();
  BlasPlan(const BlasPlan&) = delete;
  BlasPlan& operator=(const BlasPlan&) = delete;
  absl::Status Run(const BlasArgs& args, void* workspace, Stream stream) const;

 private:
  friend class Blas;
  struct State;
  explicit BlasPlan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A handle of the library, for the device that is current.
class Blas {
 public:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  // Unavailable if cuBLASLt isn't found.
  static absl::StatusOr<std::unique_ptr<Blas>> Create();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Unimplemented if the library has no way to compute it.
  absl::StatusOr<std::unique_ptr<const BlasPlan>> Plan(
      const BlasProduct& product) const;

 private:
  explicit Blas(void* handle) : handle_(handle) {}
  void* const handle_;
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_BLAS_H_
