// The loop that all elementwise kernels run on.

#ifndef MICA_KERNELS_CPU_POINTWISE_H_
#define MICA_KERNELS_CPU_POINTWISE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// The vector loops' element type of a dtype, if they have it.
std::optional<Elem> ElemOf(DType dtype);

// One element of any Elem.
struct Constant {
  alignas(8) unsigned char bytes[8] = {};
};
Constant MakeConstant(Elem elem, double value);
Constant MakeConstant(Elem elem, int64_t value);
// Writes the one element at its operand n times, of 1, 2, 4 or 8 bytes.
UnaryFn FillLoopOf(int64_t bytes);

// An operand of an elementwise kernel: a value or a constant number.
struct Source {
  int arg = -1;                      // Index among the operands, or -1.
  const TensorType* type = nullptr;  // Null for a constant.
  Argument constant;
};
// What is given for `param`; nothing for None.
std::optional<Source> SourceOf(const KernelRequest& request, int param);

inline constexpr int kMaxSources = 3;

// One elementwise loop: `row` runs over dense pieces of the result, sources
// broadcast, gathered and converted before it. Immutable.
struct PointwiseLoop {
  // Runs n elements. Sources are arrays or, where `is_single`, one element.
  using RowFn = void (*)(const PointwiseLoop& loop, const void* const* in,
                         void* out, int64_t n);
  struct Input {
    int arg = -1;  // -1: the constant, which is converted already.
    Constant constant;
    bool is_single = false;  // Stride 0 in the innermost dimension.
    bool is_gathered = false;
    int64_t stride = 0;            // In elements, of the innermost dimension.
    int64_t bytes = 0;             // Of an element in memory.
    bool has_short_rows = false;   // Gathered by short rows.
    int64_t short_row_stride = 0;  // In bytes.
    ConvertFn convert = nullptr;
    absl::InlinedVector<int64_t, 4> outer_strides;  // In bytes.
  };

  RowFn row = nullptr;
  // What the rows call; which one is set depends on `row`.
  UnaryFn unary = nullptr;
  BinaryFn binary = nullptr;
  BinaryRowsFn binary_rows = nullptr;  // Of two sources and alpha, too.
  SelectFn select = nullptr;
  ClampFn clamp = nullptr;
  Constant alpha, low, high;

  int num_inputs = 0;
  Input inputs[kMaxSources];
  int out_arg = 0;
  int64_t out_bytes = 0;  // Of an element.
  // In elements, of the innermost dimension: greater than 1 is scattered.
  int64_t out_stride = 1;
  int64_t inner = 0;  // Elements of the innermost dimension.
  // If not 0, that is two dimensions in truth, and the inner one has so few
  // elements: sources that aren't one dimension there are gathered.
  int64_t short_row = 0;
  // Up to so many: where rows are longer, a call for each costs less.
  int64_t longest_short_row = 12;
  // Each row of the result is one element again and again: no source has more.
  bool has_equal_rows = false;
  absl::InlinedVector<int64_t, 4> outer_sizes;
  absl::InlinedVector<int64_t, 4> out_outer_strides;  // In bytes.
  int num_threads = 1;

  // One row, and nothing to gather or convert.
  bool IsFlat() const;
};

// Lays `loop` out over the request's result 0, computing in `elem` (or, for a
// source whose entry in `own_elem` is set, in the source's own type). Returns
// the reason why it can't. Inputs whose stride is 0 are single, but the first
// one isn't if all are.
std::optional<std::string> LayOut(const KernelRequest& request,
                                  absl::Span<const Source> sources, Elem elem,
                                  absl::Span<const bool> keeps_type,
                                  PointwiseLoop& loop);

// Sets what computes `op` on the two inputs of a loop that is laid out. False
// if there is nothing for the type.
bool SetBinary(Binary op, Elem elem, PointwiseLoop& loop);

// The kernel for a finished loop.
Prepared Finish(const KernelRequest& request, absl::Span<const Source> sources,
                std::shared_ptr<PointwiseLoop> loop);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_POINTWISE_H_
