#include "analysis/lower/moved_gradients.h"

#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/lower/lowering.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Of aten.select_backward(grad_output, input_sizes, dim, index).
constexpr size_t kSizes = 1, kDim = 2, kIndex = 3;

}  // namespace

bool SelectsByNumber(const TapeCall& call) {
  return call.op == "aten.select_backward" &&
         std::holds_alternative<TapeHostRef>(call.args[kIndex]);
}

// Zeros, of which a window is the gradient: where it begins is computed.
absl::Status Lowering::LowerSelectBackward(const TapeCall& call) {
  const int32_t number = std::get<TapeHostRef>(call.args[kIndex]).id;
  if (tape_.host_values[number].is_constant) {
    TapeCall fixed = call;
    fixed.args[kIndex] = static_cast<int64_t>(tape_.host_values[number].value);
    return LowerAnyCall(fixed);
  }
  std::vector<int64_t> sizes =
      std::get<std::vector<int64_t>>(call.args[kSizes]);
  const auto rank = static_cast<int64_t>(sizes.size());
  int64_t dim = std::get<int64_t>(call.args[kDim]);
  if (dim < 0) dim += rank;
  const TapeTensorId result = OutputTensors(call)[0];
  MICA_ASSIGN_OR_RETURN(const TensorType type, memory_.TypeOf(result));
  MICA_ASSIGN_OR_RETURN(const ValueId gradient,
                        Current(std::get<TapeTensorRef>(call.args[0]).id));
  std::vector<int64_t> strides(sizes.size(), 1);
  for (int64_t i = rank - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
  MICA_ASSIGN_OR_RETURN(
      const Argument offset,
      memory_.DistanceOf(
          {.number = number, .stride = strides[dim], .size = sizes[dim]}));
  MICA_ASSIGN_OR_RETURN(
      const ValueId zeros,
      AddOneResult("aten.full", {sizes, 0.0, type.dtype}, type));
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  MICA_ASSIGN_OR_RETURN(
      const ValueId written,
      AddOneResult("mica.write_window_at",
                   {ValueRef{zeros}, ValueRef{gradient}, std::move(sizes),
                    std::move(strides), offset},
                   type));
  return memory_.SetFresh(result, written);
}

}  // namespace mica
