// Tensors from nothing but numbers.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"

namespace mica {
namespace {

constexpr absl::string_view kOptions =
    ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None";

// What a factory makes where no dtype is given.
enum class Default : uint8_t { kF32, kSelf, kNumber };

struct FactoryRule {
  int size = -1;   // Parameter with the dims; -1: those of self.
  int dtype = -1;  // Parameter with the dtype.
  Default otherwise = Default::kF32;
  int number = -1;  // Parameter whose kind of number is the default dtype.
};

DType NumberDefault(DType number) {
  return IsFloating(number) ? DType::kF32 : number;
}

InferFn Factory(FactoryRule rule) {
  return [rule](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    DType dtype = DType::kF32;
    if (rule.otherwise == Default::kSelf) dtype = call.Type(0).dtype;
    if (rule.otherwise == Default::kNumber) {
      dtype = NumberDefault(call.NumberDType(rule.number));
    }
    if (rule.number >= 0 && call.IsValue(rule.number) &&
        call.Type(rule.number).rank() != 0) {
      return call.Wants("a number as value");
    }
    dtype = DTypeOr(call, rule.dtype, dtype);
    if (rule.size < 0) {
      return TensorTypes{FreshTensor(dtype, call.Type(0).dims)};
    }
    const absl::Span<const int64_t> size = call.Ints(rule.size);
    return TensorTypes{FreshTensor(dtype, Dims(size.begin(), size.end()))};
  };
}

absl::StatusOr<TensorTypes> InferScalarTensor(const OpCall& call) {
  if (call.IsValue(0) && call.Type(0).rank() != 0) {
    return call.Wants("a number");
  }
  return TensorTypes{FreshTensor(DTypeOr(call, 1, DType::kF32), {})};
}

// How many numbers an arange has; negative if the arguments are no range.
double CountRange(const OpCall& call, int start, int end, int step,
                  DType dtype) {
  auto number = [&](int param, double otherwise) {
    const double value = param < 0 ? otherwise : call.Number(param);
    return dtype == DType::kI64 ? std::trunc(value) : value;
  };
  const double stride = number(step, 1);
  const double count = std::ceil((number(end, 0) - number(start, 0)) / stride);
  return stride != 0 && count >= 0 ? count + 0 : -1;
}

// `start` and `step` are parameters, or -1 for 0 and 1.
InferFn Arange(int start, int end, int step, int dtype_param) {
  return [=](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    DType dtype = DType::kI64;
    for (int param : {start, end, step}) {
      if (param < 0) continue;
      if (!IsConstantNumber(call, param)) {
        return call.Wants("constant numbers");
      }
      if (IsFloating(call.NumberDType(param))) dtype = DType::kF32;
    }
    dtype = DTypeOr(call, dtype_param, dtype);
    const double count = CountRange(call, start, end, step, dtype);
    if (!(count >= 0) || count > static_cast<double>(kMaxTensorBytes)) {
      return call.Wants("a range that ends");
    }
    return TensorTypes{FreshTensor(dtype, {static_cast<int64_t>(count)})};
  };
}

// True if all of `steps` numbers are integers that a float holds. Others are
// rounded by ATen in vectors, whose length is the machine's.
bool AreIntegersSpaced(double start, double end, int64_t steps) {
  constexpr double kLimit = 1 << 24;
  const double first = std::trunc(start), last = std::trunc(end);
  if (!(std::fabs(first) < kLimit && std::fabs(last) < kLimit)) return false;
  return steps < 2 ||
         std::fmod(last - first, static_cast<double>(steps - 1)) == 0;
}

absl::StatusOr<TensorTypes> InferLinspace(const OpCall& call) {
  for (int param : {0, 1}) {
    if (!IsConstantNumber(call, param)) return call.Wants("constant numbers");
  }
  if (call.Int(2) < 0) return call.Wants("a number of steps from 0 on");
  const DType dtype = DTypeOr(call, 3, DType::kF32);
  if (!IsFloating(dtype) &&
      !AreIntegersSpaced(call.Number(0), call.Number(1), call.Int(2))) {
    return absl::UnimplementedError(absl::StrCat(
        call.def().name(), ": integers beside which the steps lie"));
  }
  return TensorTypes{FreshTensor(dtype, {call.Int(2)})};
}

absl::StatusOr<TensorTypes> InferEye(const OpCall& call) {
  const bool is_square = call.def().name() == "aten.eye";
  const int64_t rows = call.Int(0);
  const int64_t columns = is_square ? rows : call.Int(1);
  if (rows < 0 || columns < 0) return call.Wants("sizes from 0 on");
  const DType dtype = DTypeOr(call, is_square ? 1 : 2, DType::kF32);
  return TensorTypes{FreshTensor(dtype, {rows, columns})};
}

// NAME(size), NAME_like(self) and new_NAME(self, size) for a fixed content.
void AddFixed(OpRegistry& registry, absl::string_view name,
              absl::string_view doc) {
  registry.Add(OpDef(absl::StrCat("aten::", name, "(SymInt[] size", kOptions,
                                  ") -> Tensor"))
                   .Doc(doc)
                   .Infer(Factory({.size = 0, .dtype = 1})));
  registry.Add(
      OpDef(absl::StrCat("aten::", name, "_like(Tensor self", kOptions,
                         ", MemoryFormat? memory_format=None) -> Tensor"))
          .Doc(doc)
          .Infer(Factory({.dtype = 1, .otherwise = Default::kSelf})));
  registry.Add(
      OpDef(absl::StrCat("aten::new_", name, "(Tensor self, SymInt[] size",
                         kOptions, ") -> Tensor"))
          .Doc(doc)
          .Infer(
              Factory({.size = 1, .dtype = 2, .otherwise = Default::kSelf})));
}

void RegisterEmpty(OpRegistry& registry) {
  constexpr absl::string_view kDoc = "Any contents.";
  registry.Add(
      OpDef(absl::StrCat("aten::empty.memory_format(SymInt[] size", kOptions,
                         ", MemoryFormat? memory_format=None) -> Tensor"))
          .Doc(kDoc)
          .Infer(Factory({.size = 0, .dtype = 1})));
  registry.Add(
      OpDef(absl::StrCat("aten::empty_like(Tensor self", kOptions,
                         ", MemoryFormat? memory_format=None) -> Tensor"))
          .Doc(kDoc)
          .Infer(Factory({.dtype = 1, .otherwise = Default::kSelf})));
  registry.Add(OpDef(absl::StrCat("aten::new_empty(Tensor self, SymInt[] size",
                                  kOptions, ") -> Tensor"))
                   .Doc(kDoc)
                   .Infer(Factory(
                       {.size = 1, .dtype = 2, .otherwise = Default::kSelf})));
  registry.Add(
      OpDef(absl::StrCat("aten::empty_strided(SymInt[] size, SymInt[] stride",
                         kOptions, ") -> Tensor"))
          .Doc(kDoc)
          .Infer(Factory({.size = 0, .dtype = 2})));
  registry.Add(
      OpDef(absl::StrCat("aten::new_empty_strided(Tensor self, SymInt[] size, "
                         "SymInt[] stride",
                         kOptions, ") -> Tensor"))
          .Doc(kDoc)
          .Infer(
              Factory({.size = 1, .dtype = 3, .otherwise = Default::kSelf})));
}

void RegisterFull(OpRegistry& registry) {
  registry.Add(OpDef(absl::StrCat("aten::full(SymInt[] size, Scalar fill_value",
                                  kOptions, ") -> Tensor"))
                   .Doc("fill_value everywhere.")
                   .Infer(Factory({.size = 0,
                                   .dtype = 2,
                                   .otherwise = Default::kNumber,
                                   .number = 1})));
  registry.Add(
      OpDef(absl::StrCat("aten::full_like(Tensor self, Scalar fill_value",
                         kOptions,
                         ", MemoryFormat? memory_format=None) -> Tensor"))
          .Doc("fill_value everywhere.")
          .Infer(
              Factory({.dtype = 2, .otherwise = Default::kSelf, .number = 1})));
  registry.Add(
      OpDef(absl::StrCat("aten::new_full(Tensor self, SymInt[] size, Scalar "
                         "fill_value",
                         kOptions, ") -> Tensor"))
          .Doc("fill_value everywhere.")
          .Infer(Factory({.size = 1,
                          .dtype = 3,
                          .otherwise = Default::kSelf,
                          .number = 2})));
}

void RegisterRanges(OpRegistry& registry) {
  constexpr absl::string_view kDoc = "start, start + step, … below end.";
  registry.Add(
      OpDef(absl::StrCat("aten::arange(Scalar end", kOptions, ") -> Tensor"))
          .Doc(kDoc)
          .Infer(Arange(-1, 0, -1, 1)));
  registry.Add(OpDef(absl::StrCat("aten::arange.start(Scalar start, Scalar end",
                                  kOptions, ") -> Tensor"))
                   .Doc(kDoc)
                   .Infer(Arange(0, 1, -1, 2)));
  registry.Add(OpDef(absl::StrCat("aten::arange.start_step(Scalar start, "
                                  "Scalar end, Scalar step=1",
                                  kOptions, ") -> Tensor"))
                   .Doc(kDoc)
                   .Infer(Arange(0, 1, 2, 3)));
  registry.Add(
      OpDef(absl::StrCat("aten::linspace(Scalar start, Scalar end, int steps",
                         kOptions, ") -> Tensor"))
          .Doc("steps numbers from start to end, evenly spaced.")
          .Infer(InferLinspace));
}

}  // namespace

void RegisterFactoryOps(OpRegistry& registry) {
  AddFixed(registry, "zeros", "0 everywhere.");
  AddFixed(registry, "ones", "1 everywhere.");
  RegisterEmpty(registry);
  RegisterFull(registry);
  RegisterRanges(registry);
  registry.Add(OpDef(absl::StrCat("aten::scalar_tensor(Scalar s", kOptions,
                                  ") -> Tensor"))
                   .Doc("A tensor without dims that holds s.")
                   .Infer(InferScalarTensor));
  registry.Add(
      OpDef(absl::StrCat("aten::eye(SymInt n", kOptions, ") -> Tensor"))
          .Doc("1 on the diagonal, else 0.")
          .Infer(InferEye));
  registry.Add(OpDef(absl::StrCat("aten::eye.m(SymInt n, SymInt m", kOptions,
                                  ") -> Tensor"))
                   .Doc("1 on the diagonal, else 0.")
                   .Infer(InferEye));
}

}  // namespace mica
