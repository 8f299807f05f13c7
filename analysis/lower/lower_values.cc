// What calls read: tensors, constants, numbers.

#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/lower/constant_argument.h"
#include "analysis/lower/lowering.h"
#include "framework/base/status.h"

namespace mica {

absl::StatusOr<ValueId> Lowering::AddTapeConstant(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  MICA_ASSIGN_OR_RETURN(TensorType type, memory_.TypeOf(id));
  if (!tensor.numbers.empty()) {
    MICA_ASSIGN_OR_RETURN(const ValueId made, AddNumbers(tensor, type));
    if (made != kNoValue) return made;
  }
  type.is_scalar = tensor.is_wrapped_number;
  if (type.is_row_major() || type.num_elements() == 0) {
    type.strides.clear();
    return AddBytes(id, type);
  }
  // The tape has them as they lie in memory; the tensor is a window on that.
  const int64_t extent = type.extent_bytes() / ElementBytes(type.dtype);
  MICA_ASSIGN_OR_RETURN(
      ValueId memory,
      AddBytes(id, TensorType{.dtype = type.dtype, .dims = {extent}}));
  return AddOneResult(
      "aten.as_strided",
      {ValueRef{memory}, tensor.sizes, tensor.strides, int64_t{0}}, type);
}

absl::StatusOr<ValueId> Lowering::AddNumbers(const TapeTensor& tensor,
                                             const TensorType& type) {
  std::vector<Argument> numbers;
  bool are_constant = true;
  for (const TapeHostOperand& operand : tensor.numbers) {
    numbers.push_back(operand.constant);
    if (operand.id < 0) continue;
    MICA_ASSIGN_OR_RETURN(numbers.back(), LowerHostValue(operand.id));
    are_constant &= !std::holds_alternative<ValueRef>(numbers.back());
  }
  if (are_constant) return kNoValue;
  if (tensor.is_wrapped_number) return std::get<ValueRef>(numbers[0]).id;
  if (numbers.size() == 1) {
    return AddOneResult("aten.full", {tensor.sizes, numbers[0], type.dtype},
                        type);
  }
  const TensorType element{.dtype = type.dtype, .dims = {1}};
  ValueRefs elements;
  for (Argument& number : numbers) {
    MICA_ASSIGN_OR_RETURN(
        const ValueId id,
        AddOneResult("aten.full",
                     {std::vector<int64_t>{1}, std::move(number), type.dtype},
                     element));
    elements.push_back(ValueRef{id});
  }
  MICA_ASSIGN_OR_RETURN(
      const ValueId all,
      AddOneResult("aten.cat", {std::move(elements), int64_t{0}},
                   TensorType{.dtype = type.dtype,
                              .dims = {static_cast<int64_t>(numbers.size())}}));
  if (tensor.sizes.size() == 1) return all;
  return AddOneResult("aten.view", {ValueRef{all}, tensor.sizes}, type);
}

absl::StatusOr<ValueId> Lowering::AddBytes(TapeTensorId id, TensorType type) {
  const TapeTensor& tensor = tape_.tensors[id];
  if (type.num_bytes() <= kMaxInlineConstantBytes) {
    return builder_.AddConstant(
        "", type,
        std::vector<uint8_t>(tensor.bytes->begin(), tensor.bytes->end()));
  }
  const std::string name = absl::StrCat("constant.", large_constants_.size());
  large_constants_.push_back(id);
  return builder_.AddVariable(ValueName(name), name, type);
}

absl::StatusOr<ValueId> Lowering::NumberRead(int32_t call,
                                             int32_t output) const {
  const auto it = host_values_.find(&tape_.calls[call]);
  if (it != host_values_.end() && output == 0) return it->second;
  return absl::UnimplementedError(absl::StrCat(
      Where(tape_.calls[call]), ": a number that Python reads from a tensor"));
}

absl::StatusOr<Argument> Lowering::LowerHostValue(int32_t id) {
  const TapeHostValue& number = tape_.host_values[id];
  if (number.is_constant) return Argument(number.value);
  if (const auto it = scalars_.find(id); it != scalars_.end()) {
    return Argument(ValueRef{it->second});
  }
  ValueId value = kNoValue;
  if (number.kind == TapeHostValue::Kind::kRead) {
    MICA_ASSIGN_OR_RETURN(value, NumberRead(number.call, number.output));
    const DType dtype = builder_.type(value).dtype;
    if (IsFloating(dtype) && ElementBytes(dtype) < 4) {
      MICA_ASSIGN_OR_RETURN(
          value, AddOneResult("aten._to_copy", {ValueRef{value}, DType::kF32},
                              ScalarType(DType::kF32)));
    } else if (dtype != DType::kBool && !IsFloating(dtype) &&
               ElementBytes(dtype) < 8) {
      MICA_ASSIGN_OR_RETURN(
          value, AddOneResult("aten._to_copy", {ValueRef{value}, DType::kI64},
                              ScalarType(DType::kI64)));
    }
    if (builder_.type(value).dtype == DType::kI64) {
      MICA_ASSIGN_OR_RETURN(value,
                            AddOneResult("mica.int_add", {ValueRef{value}, 0.0},
                                         ScalarType(DType::kF64)));
    }
  } else {
    Arguments operands;
    for (const TapeHostOperand& operand : number.operands) {
      operands.push_back(operand.constant);
      if (operand.id < 0) continue;
      MICA_ASSIGN_OR_RETURN(operands.back(), LowerHostValue(operand.id));
    }
    MICA_ASSIGN_OR_RETURN(value, AddOneResult(number.op, std::move(operands),
                                              ScalarType(DType::kF64)));
  }
  scalars_[id] = value;
  return Argument(ValueRef{value});
}

absl::StatusOr<Argument> Lowering::LowerArgument(const TapeValue& value) {
  if (const auto* ref = std::get_if<TapeHostRef>(&value)) {
    return LowerHostValue(ref->id);
  }
  if (const auto* ref = std::get_if<TapeTensorRef>(&value)) {
    if (ref->id == kNoTapeTensor) return Argument();
    MICA_ASSIGN_OR_RETURN(ValueId id, Current(ref->id));
    return Argument(ValueRef{id});
  }
  if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    ValueRefs refs;
    for (TapeTensorId id : list->ids) {
      refs.push_back(ValueRef{kNoValue});
      if (id == kNoTapeTensor) continue;
      MICA_ASSIGN_OR_RETURN(refs.back().id, Current(id));
    }
    return Argument(std::move(refs));
  }
  return ConstantArgument(value);
}

absl::StatusOr<Arguments> Lowering::LowerArguments(const TapeCall& call) {
  Arguments arguments;
  for (const TapeValue& value : call.args) {
    MICA_ASSIGN_OR_RETURN(Argument argument, LowerArgument(value));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

absl::StatusOr<ValueId> Lowering::Current(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  if (!memory_.IsKnown(id)) {
    if (tensor.origin == TapeOrigin::kAlias) {
      MICA_RETURN_IF_ERROR(Current(tensor.base).status());
    }
    if (tensor.origin == TapeOrigin::kConstant) {
      MICA_ASSIGN_OR_RETURN(ValueId value, AddTapeConstant(id));
      MICA_RETURN_IF_ERROR(memory_.SetFresh(id, value));
    }
  }
  return memory_.Current(id);
}

}  // namespace mica
