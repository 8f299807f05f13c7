// What the inference functions of several families share.

#ifndef MICA_OPS_INFER_H_
#define MICA_OPS_INFER_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/op/op_def.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

using ParamList = absl::InlinedVector<int, 4>;

// `type` without what only a place in memory has: strides, being a scalar.
TensorType FreshTensor(DType dtype, Dims dims);

// Which dtypes a pointwise op takes, after promotion.
enum class Accepts : uint8_t { kAny, kNoBool, kBitwise, kFloating };

// How a pointwise op's result dtype follows from its operands.
enum class ResultRule : uint8_t {
  kPromoted,  // torch's promotion of the operands.
  kFloat,     // The same, but f32 for integers and bool.
  kBool,
  kFirst,  // The first operand's.
};

// Parameters that take part in promotion and broadcasting, by position; other
// values only in broadcasting. Absent ones are left out.
struct PointwiseRule {
  ParamList operands = {0};
  ResultRule result = ResultRule::kPromoted;
  Accepts accepts = Accepts::kAny;
  // Result dims are the first operand's: the others broadcast to it.
  bool keeps_first_dims = false;
};

// Inference of an op whose value arguments broadcast. All operands host
// scalars give a host scalar; a kFloat one is f64 then.
InferFn Pointwise(PointwiseRule rule);

// An elementwise op with that inference.
OpDef PointwiseOp(absl::string_view schema, absl::string_view doc,
                  PointwiseRule rule);

// One result with the dtype and dims of the tensor given for `param`.
InferFn SameTypeAs(int param);

// The dims that `a` and `b` broadcast to; false if they don't.
bool BroadcastDims(absl::Span<const Dim> a, absl::Span<const Dim> b,
                   Dims* result);
// True if `from` broadcasts to exactly `to`.
bool BroadcastsTo(absl::Span<const Dim> from, absl::Span<const Dim> to);

// `axis`, negative counting from the end, as an index; a tensor without dims
// takes 0 and -1. Fails on others.
absl::StatusOr<int> NormalizeAxis(const OpCall& call, int64_t axis, int rank);

// Marks the axes listed; fails on repeated ones.
absl::StatusOr<absl::InlinedVector<bool, 5>> MarkAxes(
    const OpCall& call, absl::Span<const int64_t> axes, int rank);
// As MarkAxes for the optional list `param`; none or empty means all.
absl::StatusOr<absl::InlinedVector<bool, 5>> MarkReducedAxes(const OpCall& call,
                                                             int param,
                                                             int rank);

// `dims` less the marked axes, or with ones in their place.
enum class Reduced : uint8_t { kDropped, kKept };
Dims ReduceDims(absl::Span<const Dim> dims, absl::Span<const bool> marked,
                Reduced reduced);
inline Reduced KeepIf(bool keepdim) {
  return keepdim ? Reduced::kKept : Reduced::kDropped;
}

// Product of `dims`, or -1 if it overflows.
int64_t CountOf(absl::Span<const Dim> dims);

// True if `param` is a number that inference can see: a constant.
bool IsConstantNumber(const OpCall& call, int param);
// The dtype given for `param`, else `otherwise`.
DType DTypeOr(const OpCall& call, int param, DType otherwise);
// The integer given for `param`, else `otherwise`.
int64_t IntOr(const OpCall& call, int param, int64_t otherwise);
// The bool given for `param`, else false.
bool BoolOrFalse(const OpCall& call, int param);

}  // namespace mica

#endif  // MICA_OPS_INFER_H_
