// Arithmetic and comparisons of host scalars: what Python does with numbers
// between two ops, such as Adam's bias corrections.

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

// Operands of any dtype count as Python's float; so does the result.
absl::StatusOr<TensorTypes> InferScalar(const OpCall& call) {
  const int num_params = static_cast<int>(call.def().schema().params.size());
  for (int i = 0; i < num_params; ++i) {
    if (call.IsValue(i) && !call.Type(i).is_scalar) {
      return call.Wants("host scalars");
    }
  }
  return TensorTypes{ScalarType(DType::kF64)};
}

void AddBinary(OpRegistry& registry, absl::string_view name,
               absl::string_view doc) {
  registry.Add(
      OpDef(absl::StrCat("mica::", name, "(Scalar a, Scalar b) -> Scalar"))
          .Doc(doc)
          .Infer(InferScalar));
}

void AddUnary(OpRegistry& registry, absl::string_view name,
              absl::string_view doc) {
  registry.Add(OpDef(absl::StrCat("mica::", name, "(Scalar a) -> Scalar"))
                   .Doc(doc)
                   .Infer(InferScalar));
}

}  // namespace

void RegisterScalarOps(OpRegistry& registry) {
  constexpr absl::string_view kInts =
      " of whole numbers, as Python's int; an error from 2**53 on.";
  AddBinary(registry, "int_add", absl::StrCat("a + b", kInts));
  AddBinary(registry, "int_sub", absl::StrCat("a - b", kInts));
  AddBinary(registry, "int_mul", absl::StrCat("a * b", kInts));
  AddBinary(registry, "int_floordiv",
            absl::StrCat("a // b", kInts, " b = 0 is an error."));
  AddBinary(registry, "int_mod",
            absl::StrCat("a % b", kInts, " b = 0 is an error."));
  AddBinary(registry, "int_pow",
            absl::StrCat("a ** b", kInts, " b < 0 is an error."));
  AddUnary(registry, "int_abs", absl::StrCat("abs(a)", kInts));
  AddBinary(registry, "int_max", absl::StrCat("max(a, b)", kInts));
  AddBinary(registry, "int_min", absl::StrCat("min(a, b)", kInts));
  constexpr absl::string_view kOfFloat =
      " of a float, a whole number; an error from 2**53 on, and of what is no "
      "number.";
  AddUnary(registry, "int_floor", absl::StrCat("math.floor(a)", kOfFloat));
  AddUnary(registry, "int_ceil", absl::StrCat("math.ceil(a)", kOfFloat));
  AddUnary(registry, "int_trunc", absl::StrCat("int(a)", kOfFloat));
  AddUnary(registry, "int_round", absl::StrCat("round(a)", kOfFloat));
  AddBinary(registry, "scalar_add", "a + b, as Python adds floats.");
  AddBinary(registry, "scalar_sub", "a - b, as Python subtracts floats.");
  AddBinary(registry, "scalar_mul", "a * b, as Python multiplies floats.");
  AddBinary(registry, "scalar_div",
            "a / b, as Python divides floats; b = 0 is an error.");
  AddBinary(registry, "scalar_floordiv",
            "a // b, as Python divides floats; b = 0 is an error.");
  AddBinary(registry, "scalar_mod",
            "a % b, as Python divides floats; b = 0 is an error.");
  AddBinary(registry, "scalar_pow",
            "a ** b of floats; what Python raises on, or answers with a "
            "complex number, is an error.");
  AddBinary(registry, "scalar_round",
            "round(a, b) of a float, to b decimal places, 0 to 300.");
  AddBinary(registry, "scalar_lt", "1.0 if a < b, else 0.0.");
  AddBinary(registry, "scalar_le", "1.0 if a <= b, else 0.0.");
  AddBinary(registry, "scalar_eq", "1.0 if a == b, else 0.0.");
  AddBinary(registry, "scalar_max", "max(a, b) of floats: b if b > a, else a.");
  AddBinary(registry, "scalar_min", "min(a, b) of floats: b if b < a, else a.");
  AddUnary(registry, "scalar_neg", "-a as a float.");
  AddUnary(registry, "scalar_abs", "abs(a) as a float.");
  AddUnary(registry, "scalar_sqrt", "math.sqrt(a); a < 0 is an error.");
  AddUnary(registry, "scalar_exp", "math.exp(a); an overflow is an error.");
  AddUnary(registry, "scalar_log", "math.log(a); a <= 0 is an error.");
  AddUnary(registry, "scalar_log10", "math.log10(a); a <= 0 is an error.");
  AddUnary(registry, "scalar_log2", "math.log2(a); a <= 0 is an error.");
  AddUnary(registry, "scalar_tanh", "math.tanh(a).");
  AddUnary(registry, "scalar_cos", "math.cos(a); an infinity is an error.");
  AddUnary(registry, "scalar_sin", "math.sin(a); an infinity is an error.");
}

}  // namespace mica
