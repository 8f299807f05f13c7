#include "analysis/lower/constant_argument.h"

#include <complex>
#include <optional>

#include "absl/strings/str_cat.h"

namespace mica {

absl::StatusOr<Argument> ConstantArgument(const TapeValue& value) {
  if (const auto* dtype = std::get_if<TapeDtype>(&value)) {
    const std::optional<DType> known = ParseDType(dtype->name);
    if (known.has_value()) return Argument(*known);
    return absl::UnimplementedError(absl::StrCat("dtype ", dtype->name));
  }
  if (const auto* word = std::get_if<TapeEnum>(&value)) {
    return Argument(word->name);
  }
  if (const auto* flag = std::get_if<bool>(&value)) return Argument(*flag);
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return Argument(*number);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return Argument(*number);
  }
  if (const auto* number = std::get_if<std::complex<double>>(&value)) {
    return Argument(*number);
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return Argument(*text);
  }
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
    return Argument(*flags);
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    return Argument(*ints);
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    return Argument(*reals);
  }
  if (std::holds_alternative<TapeHostList>(value)) {
    return absl::UnimplementedError("a list of numbers that vary");
  }
  if (std::holds_alternative<std::monostate>(value)) return Argument();
  return absl::UnimplementedError("an argument of a kind that has no form");
}

}  // namespace mica
