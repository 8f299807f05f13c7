// Gradients of views: zeros with the gradient written through the view.

#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"
#include "ops/shape/location.h"

namespace mica {
namespace {

// The type of the tensor that was viewed; input_sizes is parameter 1.
absl::StatusOr<TensorType> ViewedType(const OpCall& call) {
  const auto sizes = call.Ints(1);
  TensorType type =
      FreshTensor(call.Type(0).dtype, Dims(sizes.begin(), sizes.end()));
  for (Dim dim : type.dims) {
    if (dim < 0) return call.Wants("sizes of 0 or more");
  }
  if (!HasLegalSize(type)) return call.Wants("a smaller size");
  return type;
}

absl::StatusOr<TensorTypes> InferViewBackward(const OpCall& call,
                                              const TensorType& viewed,
                                              absl::StatusOr<View> view) {
  if (!view.ok()) return view.status();
  if (!BroadcastsTo(call.Type(0).dims, view->dims)) {
    return call.Wants("a gradient with the view's dims");
  }
  return TensorTypes{viewed};
}

absl::StatusOr<TensorTypes> InferSliceBackward(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorType viewed, ViewedType(call));
  return InferViewBackward(call, viewed,
                           SliceView(call, viewed,
                                     {.axis = call.Int(2),
                                      .start = call.Int(3),
                                      .end = call.Int(4),
                                      .step = call.Int(5)}));
}

absl::StatusOr<TensorTypes> InferSelectBackward(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorType viewed, ViewedType(call));
  return InferViewBackward(call, viewed,
                           SelectView(call, viewed, call.Int(2), call.Int(3)));
}

absl::StatusOr<TensorTypes> InferDiagonalBackward(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorType viewed, ViewedType(call));
  return InferViewBackward(
      call, viewed,
      DiagonalView(
          call, viewed,
          {.shift = call.Int(2), .axis1 = call.Int(3), .axis2 = call.Int(4)}));
}

}  // namespace

void RegisterViewBackwardOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, "
            "int dim, SymInt start, SymInt end, SymInt step) -> Tensor")
          .Doc("Zeros with grad_output in place of the slice.")
          .Infer(InferSliceBackward));
  registry.Add(
      OpDef("aten::select_backward(Tensor grad_output, SymInt[] input_sizes, "
            "int dim, SymInt index) -> Tensor")
          .Doc("Zeros with grad_output at index along dim.")
          .Infer(InferSelectBackward));
  registry.Add(
      OpDef("aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, "
            "int offset, int dim1, int dim2) -> Tensor")
          .Doc("Zeros with grad_output on the diagonal.")
          .Infer(InferDiagonalBackward));
}

}  // namespace mica
