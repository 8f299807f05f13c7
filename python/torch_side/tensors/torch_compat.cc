#include "python/torch_side/tensors/torch_compat.h"

#include <c10/core/DispatchKeySet.h>

namespace mica {
namespace {

// at::Context keeps its table to itself, and what asks for a setting looks it
// up. An explicit instantiation may name what is private.
const auto& PrecisionTable(const at::Context& context);

template <auto kTable>
struct TableReader {
  friend const auto& PrecisionTable(const at::Context& context) {
    return context.*kTable;
  }
};

template struct TableReader<&at::Context::fp32_precision>;

}  // namespace

std::vector<const at::Float32Precision*> FloatPrecisions() {
  std::vector<const at::Float32Precision*> places;
  for (const auto& [key, precision] : PrecisionTable(at::globalContext())) {
    places.push_back(&precision);
  }
  return places;
}

const char* ScalarTypeName(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return "f32";
    case c10::ScalarType::Double:
      return "f64";
    case c10::ScalarType::BFloat16:
      return "bf16";
    case c10::ScalarType::Half:
      return "f16";
    case c10::ScalarType::Char:
      return "i8";
    case c10::ScalarType::Byte:
      return "u8";
    case c10::ScalarType::Short:
      return "i16";
    case c10::ScalarType::Int:
      return "i32";
    case c10::ScalarType::Long:
      return "i64";
    case c10::ScalarType::Bool:
      return "bool";
    case c10::ScalarType::ComplexFloat:
      return "c64";
    case c10::ScalarType::ComplexDouble:
      return "c128";
    default:
      return c10::toString(type);
  }
}

std::optional<std::string> UnsupportedTensorImpl(const c10::TensorImpl& impl) {
  if (impl.key_set().has(c10::DispatchKey::ZeroTensor)) return "a ZeroTensor";
  return UnsupportedInside(impl);
}

std::optional<std::string> UnsupportedInside(const c10::TensorImpl& impl) {
  const c10::DispatchKeySet keys = impl.key_set();
  if (keys.has_any(c10::python_ks)) return "a tensor subclass or fake tensor";
  if (impl.is_sparse() || impl.is_sparse_csr()) return "sparse";
  if (keys.has(c10::DispatchKey::NestedTensor)) return "nested";
  if (keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Quantized))) {
    return "quantised";
  }
  if (impl.is_mkldnn()) return "in MKL-DNN layout";
  if (impl.layout() != c10::kStrided) return "not strided";
  if (!impl.device().is_cpu()) return "on device " + impl.device().str();
  if (impl.has_symbolic_sizes_strides()) return "of symbolic size";
  if (!impl.has_storage()) return "without storage";
  return std::nullopt;
}

}  // namespace mica
