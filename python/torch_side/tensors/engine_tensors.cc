#include "python/torch_side/tensors/engine_tensors.h"

#include <ATen/Functions.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr std::array<std::pair<c10::ScalarType, DType>, kNumDTypes> kDTypes = {{
    {c10::ScalarType::Bool, DType::kBool},
    {c10::ScalarType::Byte, DType::kU8},
    {c10::ScalarType::Char, DType::kI8},
    {c10::ScalarType::Short, DType::kI16},
    {c10::ScalarType::Int, DType::kI32},
    {c10::ScalarType::Long, DType::kI64},
    {c10::ScalarType::Half, DType::kF16},
    {c10::ScalarType::BFloat16, DType::kBF16},
    {c10::ScalarType::Float, DType::kF32},
    {c10::ScalarType::Double, DType::kF64},
    {c10::ScalarType::ComplexFloat, DType::kC64},
    {c10::ScalarType::ComplexDouble, DType::kC128},
}};

}  // namespace

std::optional<DType> ToDType(c10::ScalarType type) {
  for (const auto& [scalar_type, dtype] : kDTypes) {
    if (scalar_type == type) return dtype;
  }
  return std::nullopt;
}

c10::ScalarType ToScalarType(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].first;
}

absl::StatusOr<TensorType> TypeOfTensor(absl::string_view what,
                                        const at::Tensor& tensor) {
  auto wants = [&](absl::string_view got) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": wants a dense tensor on the CPU, got ", got));
  };
  if (!tensor.defined()) return wants("no tensor");
  if (tensor.layout() != c10::kStrided) return wants("a sparse one");
  if (tensor.is_quantized()) return wants("a quantised one");
  if (tensor.is_nested()) return wants("a nested one");
  if (!tensor.device().is_cpu()) return wants(tensor.device().str());
  if (tensor.is_conj() || tensor.is_neg()) return wants("a lazy conjugate");
  const std::optional<DType> dtype = ToDType(tensor.scalar_type());
  if (!dtype.has_value()) return wants(c10::toString(tensor.scalar_type()));
  TensorType type{
      .dtype = *dtype,
      .dims = Dims(tensor.sizes().begin(), tensor.sizes().end()),
      .strides = Dims(tensor.strides().begin(), tensor.strides().end())};
  return type;
}

absl::StatusOr<TensorView> ViewOfTensor(absl::string_view what,
                                        const at::Tensor& tensor) {
  MICA_ASSIGN_OR_RETURN(TensorType type, TypeOfTensor(what, tensor));
  return TensorView{.data = const_cast<void*>(tensor.const_data_ptr()),
                    .type = std::move(type)};
}

at::Tensor NewTensorOf(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  return at::empty_strided(c10::IntArrayRef(type.dims.data(), type.dims.size()),
                           c10::IntArrayRef(strides.data(), strides.size()),
                           at::TensorOptions().dtype(ToScalarType(type.dtype)));
}

at::Tensor CopyToTorch(const Tensor& tensor) {
  at::Tensor copy = NewTensorOf(tensor.type());
  std::memcpy(copy.mutable_data_ptr(), tensor.data(),
              tensor.type().extent_bytes());
  return copy;
}

at::Tensor BorrowedTensor(void* data, const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  return at::from_blob(data,
                       c10::IntArrayRef(type.dims.data(), type.dims.size()),
                       c10::IntArrayRef(strides.data(), strides.size()),
                       at::TensorOptions().dtype(ToScalarType(type.dtype)));
}

at::Tensor WithLazyBits(const at::Tensor& tensor, LazyBits toggled) {
  at::Tensor seen = tensor;
  if (toggled.conj) seen = at::_conj(seen);
  if (toggled.neg) seen = at::_neg_view(seen);
  return seen;
}

at::Tensor Stored(const at::Tensor& tensor) {
  return WithLazyBits(tensor,
                      {.conj = tensor.is_conj(), .neg = tensor.is_neg()});
}

}  // namespace mica
