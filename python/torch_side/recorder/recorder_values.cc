#include <sstream>

#include "absl/strings/ascii.h"
#include "python/torch_side/recorder/recorder_impl.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

std::string NameOfEnum(const c10::TypePtr& type, int64_t value) {
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return ScalarTypeName(static_cast<c10::ScalarType>(value));
    case c10::TypeKind::LayoutType: {
      std::ostringstream out;
      out << static_cast<c10::Layout>(value);
      return absl::AsciiStrToLower(out.str());
    }
    default:
      switch (static_cast<c10::MemoryFormat>(value)) {
        case c10::MemoryFormat::Contiguous:
          return "contiguous_format";
        case c10::MemoryFormat::Preserve:
          return "preserve_format";
        case c10::MemoryFormat::ChannelsLast:
          return "channels_last";
        case c10::MemoryFormat::ChannelsLast3d:
          return "channels_last_3d";
        default:
          return "unknown_format";
      }
  }
}

c10::TypePtr WithoutOptional(c10::TypePtr type) {
  while (type->kind() == c10::TypeKind::OptionalType) {
    type = type->expectRef<c10::OptionalType>().getElementType();
  }
  return type;
}

TapeValue Foreign(const c10::IValue& value, bool* foreign) {
  *foreign = true;
  return TapeForeign{value.tagKind()};
}

}  // namespace

TapeValue Recorder::Impl::ValueOf(const c10::IValue& value,
                                  const c10::TypePtr& outer,
                                  const std::string& op, bool* foreign) {
  const c10::TypePtr type = WithoutOptional(outer);
  if (value.isNone()) return std::monostate{};
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return std::monostate{};
    return TapeTensorRef{IdOf(tensor, op)};
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) {
    const int64_t number = value.toInt();
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return TapeDtype{NameOfEnum(type, number)};
      case c10::TypeKind::LayoutType:
        return TapeEnum{TapeEnum::Kind::kLayout, NameOfEnum(type, number)};
      case c10::TypeKind::MemoryFormatType:
        return TapeEnum{TapeEnum::Kind::kMemoryFormat,
                        NameOfEnum(type, number)};
      default:
        return number;
    }
  }
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) {
    return TapeEnum{TapeEnum::Kind::kDevice, value.toDevice().str()};
  }
  if (value.isGenerator()) {
    const auto number = NumberOfGenerator(value.toGenerator());
    if (!number.has_value()) return Foreign(value, foreign);
    if (*number == kDefaultGenerator) return std::monostate{};
    return *number;
  }
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isList()) return ListOf(value, type, op, foreign);
  return Foreign(value, foreign);
}

TapeValue Recorder::Impl::ListOf(const c10::IValue& value,
                                 const c10::TypePtr& type,
                                 const std::string& op, bool* foreign) {
  const auto items = value.toListRef();
  bool tensors = true, bools = true, ints = true, numbers = true,
       strings = true;
  for (const c10::IValue& item : items) {
    tensors &= item.isTensor() || item.isNone();
    bools &= item.isBool();
    ints &= item.isInt();
    numbers &= item.isInt() || item.isDouble() || item.isBool();
    strings &= item.isString();
  }
  const c10::TypePtr element =
      type->kind() == c10::TypeKind::ListType
          ? WithoutOptional(type->expectRef<c10::ListType>().getElementType())
          : type;
  const bool of_tensors = element->kind() == c10::TypeKind::TensorType;
  if (of_tensors || (tensors && !items.empty())) {
    if (!tensors) return Foreign(value, foreign);
    TapeTensorList list;
    for (const c10::IValue& item : items) {
      list.ids.push_back(item.isNone() || !item.toTensor().defined()
                             ? kNoTapeTensor
                             : IdOf(item.toTensor(), op));
    }
    return list;
  }
  if (items.empty()) return std::vector<int64_t>{};
  if (bools) {
    std::vector<bool> list;
    for (const c10::IValue& item : items) list.push_back(item.toBool());
    return list;
  }
  if (ints) {
    std::vector<int64_t> list;
    for (const c10::IValue& item : items) list.push_back(item.toInt());
    return list;
  }
  if (numbers) {
    std::vector<double> list;
    for (const c10::IValue& item : items) {
      list.push_back(item.toScalar().toDouble());
    }
    return list;
  }
  if (strings) {
    std::vector<std::string> list;
    for (const c10::IValue& item : items) list.push_back(item.toStringRef());
    return list;
  }
  return Foreign(value, foreign);
}

}  // namespace mica
