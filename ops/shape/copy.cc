// Copies of one tensor: conversion, repetition, reordering, padding.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferToCopy(const OpCall& call) {
  const TensorType& self = call.Type(0);
  TensorType type = FreshTensor(DTypeOr(call, 1, self.dtype), self.dims);
  type.is_scalar = self.is_scalar;
  return TensorTypes{std::move(type)};
}

absl::StatusOr<TensorTypes> InferTriangle(const OpCall& call) {
  if (call.Type(0).rank() < 2) return call.Wants("at least two dims");
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferRepeat(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const absl::Span<const int64_t> repeats = call.Ints(1);
  const int added = static_cast<int>(repeats.size()) - self.rank();
  if (added < 0) return call.Wants("a repeat count for each dim");
  Dims dims(repeats.begin(), repeats.end());
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    const int64_t own = i < added ? 1 : self.dims[i - added];
    if (dims[i] < 0 || __builtin_mul_overflow(dims[i], own, &dims[i])) {
      return call.Wants("legal repeat counts");
    }
  }
  return TensorTypes{FreshTensor(self.dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferFlip(const OpCall& call) {
  MICA_RETURN_IF_ERROR(
      MarkAxes(call, call.Ints(1), call.Type(0).rank()).status());
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferRoll(const OpCall& call) {
  const auto shifts = call.Ints(1);
  const auto axes = call.Ints(2);
  const bool is_flat = axes.empty() && shifts.size() == 1;
  if (!is_flat && (shifts.size() != axes.size() || shifts.empty())) {
    return call.Wants("a shift for each axis, or one and no axes");
  }
  for (int64_t axis : axes) {
    MICA_RETURN_IF_ERROR(
        NormalizeAxis(call, axis, call.Type(0).rank()).status());
  }
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferPad(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const absl::Span<const int64_t> pad = call.Ints(1);
  const int num_axes = static_cast<int>(pad.size() / 2);
  if (pad.size() % 2 != 0 || num_axes > self.rank()) {
    return call.Wants("a pair of pads for each of the last axes");
  }
  Dims dims = self.dims;
  for (int i = 0; i < num_axes; ++i) {
    Dim& dim = dims[self.rank() - 1 - i];
    Dim kept = dim;  // What negative pads leave, before others add to it.
    for (int64_t amount : pad.subspan(2 * i, 2)) {
      if (amount < -kMaxTensorBytes || amount > kMaxTensorBytes) {
        return call.Wants("smaller pads");
      }
      dim += amount;
      kept += std::min<int64_t>(amount, 0);
    }
    if (dim < 0 || kept < 0)
      return call.Wants("pads that leave no negative size");
  }
  return TensorTypes{FreshTensor(self.dtype, std::move(dims))};
}

void RegisterReorders(OpRegistry& registry) {
  registry.Add(OpDef("aten::tril(Tensor self, SymInt diagonal=0) -> Tensor")
                   .Doc("0 above the diagonal of each matrix.")
                   .Infer(InferTriangle));
  registry.Add(OpDef("aten::triu(Tensor self, SymInt diagonal=0) -> Tensor")
                   .Doc("0 below the diagonal of each matrix.")
                   .Infer(InferTriangle));
  registry.Add(OpDef("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor")
                   .Doc("Copies side by side, as many as repeats along each "
                        "axis.")
                   .Infer(InferRepeat));
  registry.Add(OpDef("aten::flip(Tensor self, int[] dims) -> Tensor")
                   .Doc("The axes dims in reverse.")
                   .Infer(InferFlip));
  registry.Add(OpDef("aten::roll(Tensor self, SymInt[1] shifts, int[1] "
                     "dims=[]) -> Tensor")
                   .Doc("Elements moved by shifts along dims, those at the end "
                        "to the front.")
                   .Infer(InferRoll));
  registry.Add(OpDef("aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar "
                     "value=0) -> Tensor")
                   .Doc("value around self; pairs of pads from the last axis "
                        "on, negative ones crop.")
                   .Infer(InferPad));
}

absl::StatusOr<TensorTypes> InferNothing(const OpCall&) {
  return TensorTypes();
}

absl::StatusOr<TensorTypes> InferSend(const OpCall& call) {
  if (call.Type(0).is_scalar) return call.Wants("a tensor");
  return TensorTypes{FreshTensor(call.Type(0).dtype, call.Type(0).dims)};
}

absl::StatusOr<TensorTypes> InferHostRead(const OpCall& call) {
  if (call.Type(0).num_elements() != 1) return call.Wants("one element");
  return TensorTypes{ScalarType(call.Type(0).dtype)};
}

}  // namespace

void RegisterCopyOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? "
            "layout=None, Device? device=None, bool? pin_memory=None, bool "
            "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor")
          .Doc("self in another dtype.")
          .Infer(InferToCopy)
          .Elementwise());
  registry.Add(PointwiseOp(
      "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
      "A copy of self.", {}));
  registry.Add(PointwiseOp("aten::lift_fresh_copy(Tensor self) -> Tensor",
                           "A copy of self.", {}));
  registry.Add(OpDef("aten::_local_scalar_dense(Tensor self) -> Scalar")
                   .Doc("The one element of self, for Python to read.")
                   .Infer(InferHostRead));
  const PointwiseRule into_first = {
      .operands = {0}, .result = ResultRule::kFirst, .keeps_first_dims = true};
  registry.Add(PointwiseOp(
      "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
      "src in the dtype and dims of self.", into_first));
  registry.Add(
      PointwiseOp("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor",
                  "value in the dtype and dims of self.", into_first));
  registry.Add(
      PointwiseOp("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor",
                  "value in the dtype and dims of self.", into_first));
  registry.Add(OpDef("aten::zero(Tensor self) -> Tensor")
                   .Doc("0 in the dtype and dims of self.")
                   .Infer(SameTypeAs(0)));
  registry.Add(OpDef("mica::send(Tensor x, int device) -> Tensor")
                   .Doc("x as a message to a device of a Schedule.")
                   .Label("device")
                   .Infer(InferSend));
  registry.Add(OpDef("mica::keep(Tensor self) -> ()")
                   .Doc("Has self made though nothing else reads it.")
                   .Infer(InferNothing)
                   .Effect());
  RegisterReorders(registry);
}

}  // namespace mica
