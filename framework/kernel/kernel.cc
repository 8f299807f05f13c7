#include "framework/kernel/kernel.h"

namespace mica {
namespace {

int CountValues(const Argument& argument) {
  if (std::holds_alternative<ValueRef>(argument)) return 1;
  int count = 0;
  if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
    for (ValueRef ref : *refs) count += ref.id != kNoValue;
  }
  return count;
}

}  // namespace

int KernelRequest::OperandIndex(int param) const {
  if (NumValues(param) == 0) return -1;
  int index = 0;
  for (int i = 0; i < param; ++i) index += NumValues(i);
  return index;
}

int KernelRequest::NumValues(int param) const {
  return CountValues((*arguments)[param]);
}

bool KernelRequest::Has(int param) const {
  return !IsNone((*arguments)[param]);
}

int64_t KernelRequest::Int(int param) const {
  return std::get<int64_t>((*arguments)[param]);
}

bool KernelRequest::Bool(int param) const {
  return std::get<bool>((*arguments)[param]);
}

double KernelRequest::Number(int param) const {
  const Argument& argument = (*arguments)[param];
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<double>(*integer);
  }
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
  return std::get<double>(argument);
}

absl::Span<const int64_t> KernelRequest::Ints(int param) const {
  return std::get<std::vector<int64_t>>((*arguments)[param]);
}

DType KernelRequest::GetDType(int param) const {
  return std::get<DType>((*arguments)[param]);
}

const std::string& KernelRequest::String(int param) const {
  return std::get<std::string>((*arguments)[param]);
}

}  // namespace mica
