#include "analysis/lower/complex_calls.h"

#include <algorithm>
#include <complex>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/dtype.h"

namespace mica {
namespace {

bool IsComplexName(absl::string_view name) {
  const std::optional<DType> dtype = ParseDType(name);
  return dtype.has_value() && IsComplex(*dtype);
}

}  // namespace

bool IsForAten(const Tape& tape, const TapeCall& call) {
  const auto has_complex = [&](const TapeValue& value) {
    if (const auto* dtype = std::get_if<TapeDtype>(&value)) {
      return IsComplexName(dtype->name);
    }
    bool found = std::holds_alternative<std::complex<double>>(value);
    ForEachTensor(value, [&](TapeTensorId id) {
      const TapeTensor& tensor = tape.tensors[id];
      found = found || tensor.is_conj || tensor.is_neg ||
              IsComplexName(tensor.dtype);
    });
    return found;
  };
  return std::any_of(call.args.begin(), call.args.end(), has_complex) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), has_complex);
}

std::string LazyPrefix(const Tape& tape, const TapeCall& call) {
  std::string letters;
  for (const TapeValue& value : call.args) {
    ForEachTensor(value, [&](TapeTensorId id) {
      const TapeTensor& tensor = tape.tensors[id];
      letters.push_back(tensor.is_conj ? (tensor.is_neg ? 'b' : 'c')
                                       : (tensor.is_neg ? 'n' : 'p'));
    });
  }
  const bool is_plain = letters.find_first_not_of('p') == std::string::npos;
  return is_plain ? "" : absl::StrCat("lazy.", letters, ".");
}

}  // namespace mica
