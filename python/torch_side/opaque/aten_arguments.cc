#include "python/torch_side/opaque/aten_arguments.h"

#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <complex>
#include <string>
#include <utility>
#include <variant>

#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {
namespace {

std::optional<int64_t> EnumValue(const std::string& word) {
  static const std::pair<const char*, int64_t> kWords[] = {
      {"strided", static_cast<int64_t>(c10::kStrided)},
      {"contiguous_format",
       static_cast<int64_t>(c10::MemoryFormat::Contiguous)},
      {"preserve_format", static_cast<int64_t>(c10::MemoryFormat::Preserve)},
      {"channels_last", static_cast<int64_t>(c10::MemoryFormat::ChannelsLast)},
      {"channels_last_3d",
       static_cast<int64_t>(c10::MemoryFormat::ChannelsLast3d)},
  };
  for (const auto& [name, value] : kWords) {
    if (word == name) return value;
  }
  return std::nullopt;
}

// A constant argument as ATen's boxed value of the schema's type.
struct ToIValue {
  c10::TypeKind kind;  // Of the schema's type, optional stripped.

  c10::IValue operator()(std::monostate) const { return {}; }
  c10::IValue operator()(ValueRef) const { return {}; }
  c10::IValue operator()(const ValueRefs&) const { return {}; }
  c10::IValue operator()(int64_t value) const {
    if (kind == c10::TypeKind::FloatType) return static_cast<double>(value);
    return value;
  }
  c10::IValue operator()(double value) const { return value; }
  c10::IValue operator()(std::complex<double> value) const {
    return c10::complex<double>(value);
  }
  c10::IValue operator()(bool value) const { return value; }
  c10::IValue operator()(DType value) const {
    return static_cast<int64_t>(ToScalarType(value));
  }
  c10::IValue operator()(const std::string& value) const {
    if (kind == c10::TypeKind::StringType) return value;
    if (kind == c10::TypeKind::DeviceObjType) return c10::Device(value);
    const std::optional<int64_t> number = EnumValue(value);
    return number.has_value() ? c10::IValue(*number) : c10::IValue(value);
  }
  c10::IValue operator()(const std::vector<int64_t>& values) const {
    return values;
  }
  c10::IValue operator()(const std::vector<double>& values) const {
    return values;
  }
  c10::IValue operator()(const std::vector<bool>& values) const {
    c10::List<bool> list;
    for (bool value : values) list.push_back(value);
    return list;
  }
};

// A number in a tensor's place, which weighs less in a result's dtype.
at::Tensor WrappedNumber(const at::Scalar& number) {
  at::Tensor tensor = at::scalar_tensor(number, number.type());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

AtenParam MakeAtenParam(const Param& param, const c10::Argument& aten,
                        const Argument& argument) {
  c10::TypePtr type = aten.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  AtenParam made{.is_scalar = param.kind == ParamKind::kScalar,
                 .is_mutated = param.is_mutated,
                 .has_optional_elements = param.has_optional_elements};
  if (type->kind() == c10::TypeKind::GeneratorType &&
      std::holds_alternative<int64_t>(argument)) {
    made.generator = std::get<int64_t>(argument);
  } else if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
    made.is_list = true;
    for (ValueRef ref : *refs) {
      made.is_present.push_back(ref.id != kNoValue);
      made.num_values += ref.id != kNoValue;
    }
  } else if (std::holds_alternative<ValueRef>(argument)) {
    made.num_values = 1;
  } else {
    made.constant = std::visit(ToIValue{type->kind()}, argument);
    if (type->kind() == c10::TypeKind::TensorType && made.constant.isScalar()) {
      made.constant = WrappedNumber(made.constant.toScalar());
    }
    if (type->kind() == c10::TypeKind::ListType && made.constant.isInt()) {
      made.constant =
          std::vector<int64_t>(aten.N().value_or(1), made.constant.toInt());
    }
  }
  return made;
}

}  // namespace mica
