#include "kernels/region/signature.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace mica::region {
namespace {

constexpr absl::string_view kAccessNames[] = {"one", "dense", "strided"};

void AppendArrays(const std::vector<Array>& arrays, std::string& text) {
  absl::StrAppend(&text, " |");
  for (const Array& array : arrays) {
    absl::StrAppend(&text, " ", DTypeName(array.dtype), ".",
                    kAccessNames[static_cast<int>(array.access)],
                    array.is_used ? "" : ".unused");
  }
}

std::optional<Array> ParseArray(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, '.');
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  const std::optional<DType> dtype = ParseDType(words[0]);
  if (!dtype.has_value() || IsComplex(*dtype)) return std::nullopt;
  Array array{.dtype = *dtype, .is_used = words.size() == 2};
  if (!array.is_used && words[2] != "unused") return std::nullopt;
  for (int i = 0; i < 3; ++i) {
    array.access = static_cast<Access>(i);
    if (words[1] == kAccessNames[i]) return array;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Array>> ParseArrays(absl::string_view text) {
  std::vector<Array> arrays;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::optional<Array> array = ParseArray(word);
    if (!array.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "signature: wants arrays such as f32.dense, got \"", word, "\""));
    }
    arrays.push_back(*array);
  }
  return arrays;
}

}  // namespace

std::string SignatureText(const Signature& signature) {
  std::string text = signature.code.ToText();
  AppendArrays(signature.operands, text);
  AppendArrays(signature.results, text);
  return text;
}

absl::StatusOr<Signature> ParseSignature(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '|');
  if (parts.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "signature: wants code | operands | results, got \"", text, "\""));
  }
  Signature signature;
  MICA_ASSIGN_OR_RETURN(signature.code, RegionCode::Parse(parts[0]));
  MICA_ASSIGN_OR_RETURN(signature.operands, ParseArrays(parts[1]));
  MICA_ASSIGN_OR_RETURN(signature.results, ParseArrays(parts[2]));
  if (signature.results.size() != signature.code.results.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("signature: wants ", signature.code.results.size(),
                     " results, got ", signature.results.size()));
  }
  for (const RegionCode::Instruction& instruction :
       signature.code.instructions) {
    for (const RegionCode::Ref& ref : instruction.operands) {
      if (ref.kind == RegionCode::Ref::Kind::kOperand &&
          ref.index >= static_cast<int>(signature.operands.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("signature: wants operand ", ref.index, ", got ",
                         signature.operands.size(), " operands"));
      }
    }
  }
  return signature;
}

}  // namespace mica::region
