// Copies of elements from one layout to another.

#ifndef MICA_KERNELS_CPU_STRIDED_COPY_H_
#define MICA_KERNELS_CPU_STRIDED_COPY_H_

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// Turns a matrix of elements of 1, 2, 4, 8 or 16 bytes over.
TransposeFn TransposeOf(int64_t bytes);

// Copies a run of any length, a short one by pieces in place of a call.
inline void CopyRun(const char* from, char* to, int64_t bytes) {
  constexpr int64_t kPiece = 16, kPieces = 64, kShort = 256;
  if (bytes < kPiece || bytes > kShort) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  int64_t at = 0;
  for (; at + kPieces <= bytes; at += kPieces) {
    std::memcpy(to + at, from + at, kPieces);
  }
  for (; at + kPiece <= bytes; at += kPiece) {
    std::memcpy(to + at, from + at, kPiece);
  }
  std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
}

// How to copy the elements of one type, broadcast, to another's places. What
// it does is chosen once: whole rows where both memories have runs, squares
// where one has its runs along another dim than the other, else elements.
// Immutable; doesn't know the elements' meaning.
class StridedCopy {
 public:
  // Nothing if elements of this size can't be copied. Both types have the same
  // dtype; `from` has the dims of `to`, or is broadcast to them.
  static std::optional<StridedCopy> Of(const TensorType& from,
                                       const TensorType& to);

  // The two must not overlap, unless they are the same memory in the same
  // layout, or `from` is one element among those of `to`.
  void Run(const void* from, void* to, int num_threads) const;

 private:
  struct Dim {
    int64_t size = 1, from = 0, to = 0;  // Strides are in bytes.
  };
  using Dims = absl::InlinedVector<Dim, 6>;
  // Copies the innermost dim, or the two innermost.
  using InnerFn = void (*)(const StridedCopy& copy, const char* from, char* to);

  static Dims JoinedDims(const TensorType& from, const TensorType& to,
                         int64_t bytes);
  bool TakeSquares();
  template <typename T>
  void ChooseElements();
  template <typename T>
  bool ChooseSquares();
  void RunOuter(const char* from, char* to, int64_t begin, int64_t end) const;

  static void CopyRows(const StridedCopy& copy, const char* from, char* to);
  template <typename T>
  static void GatherRows(const StridedCopy& copy, const char* from, char* to);
  template <typename T>
  static void CopyElements(const StridedCopy& copy, const char* from, char* to);
  template <typename T>
  static void FillRows(const StridedCopy& copy, const char* from, char* to);
  template <typename T, int kRows>
  static void Interleave(const StridedCopy& copy, const char* from, char* to);
  template <typename T>
  static void Transpose(const StridedCopy& copy, const char* from, char* to);

  int64_t bytes_ = 0;  // Of an element.
  int64_t num_elements_ = 0;
  bool is_same_layout_ = false;
  Dims outer_;  // Outermost first.
  // The last is the one along which the result has runs; the one before is the
  // next, or of squares that along which the operand has them.
  Dim columns_, rows_;
  InnerFn inner_ = nullptr;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_STRIDED_COPY_H_
