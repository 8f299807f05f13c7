// Products with weights of few bits.

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

constexpr absl::string_view kActivationsOfQuantised[] = {
    "none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu"};

bool IsMatrix(const TensorType& type, DType dtype, Dims dims) {
  return type.dtype == dtype && type.dims == dims;
}

// What stands behind the weight's parts in both products: bias, residual and
// activation from parameter `first` on.
absl::StatusOr<TensorTypes> InferRest(const OpCall& call, Dim n, int first) {
  Dims dims = call.Type(0).dims;
  dims.back() = n;
  if (call.Has(first) && !IsMatrix(call.Type(first), DType::kF32, {n})) {
    return call.Wants("bias[n]");
  }
  if (call.Has(first + 1) &&
      !IsMatrix(call.Type(first + 1), DType::kF32, dims)) {
    return call.Wants("a residual of the result's type");
  }
  if (std::find(std::begin(kActivationsOfQuantised),
                std::end(kActivationsOfQuantised),
                call.String(first + 2)) == std::end(kActivationsOfQuantised)) {
    return call.Wants(absl::StrCat("a known activation, not \"",
                                   call.String(first + 2), "\","));
  }
  return TensorTypes{FreshTensor(DType::kF32, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferQuantiseInt8(const OpCall& call) {
  const TensorType& weight = call.Type(0);
  if (weight.rank() != 2 || weight.dtype != DType::kF32) {
    return call.Wants("weight[n,k] of float32");
  }
  return TensorTypes{FreshTensor(DType::kI8, weight.dims),
                     FreshTensor(DType::kF32, {weight.dims[0]})};
}

absl::StatusOr<TensorTypes> InferInt8Linear(const OpCall& call) {
  const TensorType& x = call.Type(0);
  const TensorType& weight = call.Type(1);
  if (x.rank() < 1 || x.dtype != DType::kF32 || weight.rank() != 2 ||
      weight.dtype != DType::kI8 || x.dims.back() != weight.dims[1] ||
      !IsMatrix(call.Type(2), DType::kF32, {weight.dims[0]})) {
    return call.Wants(
        "x[...,k] of float32, weight[n,k] of int8 and scales[n] of float32");
  }
  return InferRest(call, weight.dims[0], 3);
}

// How many groups of `group` numbers there are in k; nothing for a bad size.
absl::StatusOr<Dim> NumGroups(const OpCall& call, Dim k, int param) {
  const int64_t group = call.Int(param);
  constexpr int64_t kMost = int64_t{1} << 32;  // Sums with k don't overflow.
  if (group < 2 || group > kMost || group % 2 != 0) {
    return call.Wants("groups of an even number of weights, at most 2^32");
  }
  return (k + group - 1) / group;
}

absl::StatusOr<TensorTypes> InferQuantiseInt4(const OpCall& call) {
  const TensorType& weight = call.Type(0);
  if (weight.rank() != 2 || weight.dtype != DType::kF32) {
    return call.Wants("weight[n,k] of float32");
  }
  MICA_ASSIGN_OR_RETURN(const Dim groups, NumGroups(call, weight.dims[1], 1));
  const Dims parts = {weight.dims[0], groups};
  return TensorTypes{
      FreshTensor(DType::kU8, {weight.dims[0], (weight.dims[1] + 1) / 2}),
      FreshTensor(DType::kF32, parts), FreshTensor(DType::kF32, parts)};
}

absl::StatusOr<TensorTypes> InferInt4Linear(const OpCall& call) {
  const TensorType& x = call.Type(0);
  const TensorType& weight = call.Type(1);
  constexpr absl::string_view kWanted =
      "x[...,k] of float32, weight[n,k/2] of uint8, scales and offsets "
      "[n,groups] of float32";
  if (x.rank() < 1 || x.dtype != DType::kF32 || weight.rank() != 2) {
    return call.Wants(kWanted);
  }
  const Dim k = x.dims.back(), n = weight.dims[0];
  MICA_ASSIGN_OR_RETURN(const Dim groups, NumGroups(call, k, 7));
  if (!IsMatrix(weight, DType::kU8, {n, (k + 1) / 2}) ||
      !IsMatrix(call.Type(2), DType::kF32, {n, groups}) ||
      !IsMatrix(call.Type(3), DType::kF32, {n, groups})) {
    return call.Wants(kWanted);
  }
  return InferRest(call, n, 4);
}

}  // namespace

void RegisterQuantisedOps(OpRegistry& registry) {
  registry.Add(OpDef("mica::quantise_int8(Tensor weight) -> (Tensor values, "
                     "Tensor scales)")
                   .Doc("Rows of weight as scales[n] * values[n,k], values in "
                        "-127..127.")
                   .Infer(InferQuantiseInt8));
  registry.Add(
      OpDef("mica::int8_linear(Tensor x, Tensor weight, Tensor scales, Tensor? "
            "bias, Tensor? residual, str activation, bool dynamic) -> Tensor")
          .Doc(
              "activation(x @ (scales * weight)^T + bias) + residual; dynamic: "
              "of x what quantise_int8 makes of its rows.")
          .Infer(InferInt8Linear)
          .Contraction());
  registry.Add(OpDef("mica::quantise_int4(Tensor weight, int group) -> (Tensor "
                     "values, Tensor scales, Tensor offsets)")
                   .Doc("Groups along the rows of weight as scales[n,g] * "
                        "values + offsets[n,g]; two values of 0..15 a byte, "
                        "the first in the low bits.")
                   .Infer(InferQuantiseInt4));
  registry.Add(
      OpDef("mica::int4_linear(Tensor x, Tensor weight, Tensor scales, Tensor "
            "offsets, Tensor? bias, Tensor? residual, str activation, int "
            "group) -> Tensor")
          .Doc("activation(x @ weight^T + bias) + residual, weight as "
               "quantise_int4 makes it.")
          .Infer(InferInt4Linear)
          .Contraction());
}

}  // namespace mica
