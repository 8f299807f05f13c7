// Normalisation layers and dropout.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

// True if the optional tensor `param` is absent or has exactly `dims`.
bool HasDims(const OpCall& call, int param, absl::Span<const Dim> dims) {
  return !call.Has(param) ||
         absl::Span<const Dim>(call.Type(param).dims) == dims;
}

// Checks that the last dims of `self` are `shape` and that weight and bias,
// parameters `weight` and the next one, have it too.
absl::Status CheckNormalized(const OpCall& call, const TensorType& self,
                             absl::Span<const int64_t> shape, int weight) {
  const int num_outer = self.rank() - static_cast<int>(shape.size());
  if (shape.empty() || num_outer < 0 ||
      absl::Span<const Dim>(self.dims).subspan(num_outer) != shape ||
      !HasDims(call, weight, shape) || !HasDims(call, weight + 1, shape) ||
      !IsFloating(self.dtype)) {
    return call.Wants(
        "a floating-point tensor whose last dims are normalized_shape, as "
        "those of weight and bias");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorTypes> InferLayerNorm(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const absl::Span<const int64_t> shape = call.Ints(1);
  MICA_RETURN_IF_ERROR(CheckNormalized(call, self, shape, 2));
  Dims stats = self.dims;
  for (size_t i = 0; i < shape.size(); ++i) stats[stats.size() - 1 - i] = 1;
  return TensorTypes{FreshTensor(self.dtype, self.dims),
                     FreshTensor(self.dtype, stats),
                     FreshTensor(self.dtype, stats)};
}

absl::StatusOr<TensorTypes> InferAddLayerNorm(const OpCall& call) {
  const TensorType& a = call.Type(0);
  const TensorType& b = call.Type(1);
  if (!SameShape(a, b)) return call.Wants("two tensors of one type");
  MICA_RETURN_IF_ERROR(CheckNormalized(call, a, call.Ints(2), 3));
  return TensorTypes(2, FreshTensor(a.dtype, a.dims));
}

absl::StatusOr<TensorTypes> InferGroupNorm(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const int64_t n = call.Int(3);
  const int64_t c = call.Int(4);
  const int64_t pixels = call.Int(5);
  const int64_t groups = call.Int(6);
  const bool fits =
      self.rank() >= 2 && self.dims[0] == n && self.dims[1] == c &&
      groups > 0 && c % groups == 0 &&
      CountOf(absl::MakeConstSpan(self.dims).subspan(2)) == pixels;
  if (!fits || !HasDims(call, 1, {c}) || !HasDims(call, 2, {c}) ||
      !IsFloating(self.dtype)) {
    return call.Wants(
        "a floating-point [N,C,...] with C a multiple of group, and weight[C] "
        "and bias[C]");
  }
  return TensorTypes{FreshTensor(self.dtype, self.dims),
                     FreshTensor(self.dtype, {n, groups}),
                     FreshTensor(self.dtype, {n, groups})};
}

absl::StatusOr<TensorTypes> InferBatchNorm(const OpCall& call) {
  const TensorType& self = call.Type(0);
  if (self.rank() < 2 || !IsFloating(self.dtype)) {
    return call.Wants("a floating-point [N,C,...]");
  }
  for (int param = 1; param <= 4; ++param) {
    if (!HasDims(call, param, {self.dims[1]})) {
      return call.Wants("weight, bias and statistics of dims [C]");
    }
  }
  return TensorTypes{FreshTensor(self.dtype, self.dims),
                     FreshTensor(self.dtype, {0}),
                     FreshTensor(self.dtype, {0})};
}

// Dropout that draws numbers is an effect, also with p = 0, which moves the
// generator on; only that out of training is here.
absl::StatusOr<TensorTypes> InferDropout(const OpCall& call) {
  const bool is_training = !call.Has(2) || call.Bool(2);
  if (is_training) {
    return absl::UnimplementedError(
        absl::StrCat(call.def().name(), ": training draws numbers"));
  }
  const TensorType& self = call.Type(0);
  return TensorTypes{FreshTensor(self.dtype, self.dims),
                     FreshTensor(DType::kBool, self.dims)};
}

}  // namespace

void RegisterNormOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, "
            "Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, "
            "Tensor)")
          .Doc("(input - mean) * rstd * weight + bias over the last axes; with "
               "mean and rstd = 1 / sqrt(variance + eps).")
          .Infer(InferLayerNorm));
  registry.Add(OpDef("mica::add_layer_norm(Tensor a, Tensor b, SymInt[] "
                     "normalized_shape, Tensor? weight, Tensor? bias, float "
                     "eps) -> (Tensor sum, Tensor "
                     "out)")
                   .Doc("sum = a + b, and its layer norm.")
                   .Infer(InferAddLayerNorm));
  registry.Add(
      OpDef("aten::native_group_norm(Tensor input, Tensor? weight, Tensor? "
            "bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> "
            "(Tensor, Tensor, Tensor)")
          .Doc("Normalises each group of channels of each sample; with mean "
               "and rstd.")
          .Infer(InferGroupNorm));
  registry.Add(
      OpDef("aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? "
            "weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
            "float momentum, float eps) -> (Tensor, Tensor, Tensor)")
          .Doc("Normalises each channel by running statistics; two empty "
               "tensors stand for the batch's own.")
          .Infer(InferBatchNorm));
  registry.Add(
      OpDef("aten::native_dropout(Tensor input, float p, bool? train) -> "
            "(Tensor, Tensor)")
          .Doc("The input and a mask of true: dropout out of training.")
          .Infer(InferDropout));
}

}  // namespace mica
