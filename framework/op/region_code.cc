#include "framework/op/region_code.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr int kMostInstructions = 1 << 12;

std::string RefText(const RegionCode::Ref& ref) {
  using Kind = RegionCode::Ref::Kind;
  if (ref.kind == Kind::kOperand) return absl::StrCat("%", ref.index);
  if (ref.kind == Kind::kInstruction) return absl::StrCat("$", ref.index);
  return absl::StrFormat("%.17g", ref.number);
}

// The index behind "%" or "$".
bool ParseIndex(absl::string_view text, int limit, int* index) {
  return absl::SimpleAtoi(text.substr(1), index) && *index >= 0 &&
         *index < limit;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("region code: \"", what, "\" is malformed"));
}

absl::StatusOr<RegionCode::Ref> ParseRef(absl::string_view text,
                                         int num_instructions) {
  using Kind = RegionCode::Ref::Kind;
  RegionCode::Ref ref;
  if (text.empty()) return Malformed(text);
  if (text[0] == '%') {
    ref.kind = Kind::kOperand;
    if (!ParseIndex(text, kMostInstructions, &ref.index)) {
      return Malformed(text);
    }
  } else if (text[0] == '$') {
    ref.kind = Kind::kInstruction;
    if (!ParseIndex(text, num_instructions, &ref.index)) {
      return Malformed(text);
    }
  } else if (!absl::SimpleAtod(text, &ref.number)) {
    return Malformed(text);
  }
  return ref;
}

absl::StatusOr<RegionCode::Instruction> ParseInstruction(absl::string_view text,
                                                         int num_instructions) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.empty()) return Malformed(text);
  const std::pair<absl::string_view, absl::string_view> head =
      absl::StrSplit(words[0], absl::MaxSplits('.', 1));
  const RegionOp* op = FindRegionOp(head.first);
  const std::optional<DType> dtype = ParseDType(head.second);
  if (op == nullptr || !dtype.has_value() || !op->Has(*dtype) ||
      static_cast<int>(words.size()) != op->arity + 1) {
    return Malformed(text);
  }
  RegionCode::Instruction instruction{
      .op = op, .dtype = *dtype, .operands = {}};
  for (size_t i = 1; i < words.size(); ++i) {
    MICA_ASSIGN_OR_RETURN(RegionCode::Ref ref,
                          ParseRef(words[i], num_instructions));
    instruction.operands.push_back(ref);
  }
  return instruction;
}

}  // namespace

DType RegionCode::Instruction::operand_dtype(int i) const {
  const bool is_condition = op->id == RegionOpId::kWhere && i == 0;
  return is_condition ? DType::kBool : ComputeDType(dtype);
}

std::string RegionCode::ToText() const {
  std::vector<std::string> lines;
  for (const Instruction& instruction : instructions) {
    std::string line =
        absl::StrCat(instruction.op->name, ".", DTypeName(instruction.dtype));
    for (const Ref& ref : instruction.operands) {
      absl::StrAppend(&line, " ", RefText(ref));
    }
    lines.push_back(std::move(line));
  }
  std::string text = absl::StrCat(absl::StrJoin(lines, "; "), " ->");
  for (int result : results) absl::StrAppend(&text, " $", result);
  if (!axes.empty()) {
    absl::StrAppend(&text, " over ", absl::StrJoin(axes, " "));
  }
  return text;
}

absl::StatusOr<RegionCode> RegionCode::Parse(absl::string_view text) {
  MICA_ASSIGN_OR_RETURN(RegionCode code, ParseReducing(text));
  if (!code.axes.empty()) return Malformed(text);
  for (const Instruction& instruction : code.instructions) {
    if (instruction.op->reduces()) return Malformed(instruction.op->name);
  }
  return code;
}

std::vector<bool> RegionCode::FindReduced(
    const std::vector<bool>& operands) const {
  std::vector<bool> is_reduced;
  for (const Instruction& instruction : instructions) {
    is_reduced.push_back(instruction.op->reduces() ||
                         std::all_of(instruction.operands.begin(),
                                     instruction.operands.end(),
                                     [&](const Ref& ref) {
                                       return ref.kind == Ref::Kind::kNumber ||
                                              (ref.kind == Ref::Kind::kOperand
                                                   ? operands[ref.index]
                                                   : is_reduced[ref.index]);
                                     }));
  }
  return is_reduced;
}

absl::StatusOr<RegionCode> RegionCode::ParseReducing(absl::string_view text) {
  const std::vector<absl::string_view> halves = absl::StrSplit(text, "->");
  if (halves.size() != 2) return Malformed(text);
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(halves[1], absl::MaxSplits("over", 1));
  RegionCode code;
  for (absl::string_view line : absl::StrSplit(halves[0], ';')) {
    const int count = static_cast<int>(code.instructions.size());
    if (count == kMostInstructions) return Malformed("too many instructions");
    MICA_ASSIGN_OR_RETURN(Instruction instruction,
                          ParseInstruction(line, count));
    code.instructions.push_back(std::move(instruction));
  }
  for (absl::string_view word :
       absl::StrSplit(ends.first, ' ', absl::SkipEmpty())) {
    int result = 0;
    if (word[0] != '$' ||
        !ParseIndex(word, static_cast<int>(code.instructions.size()),
                    &result) ||
        std::count(code.results.begin(), code.results.end(), result) > 0) {
      return Malformed(word);
    }
    code.results.push_back(result);
  }
  if (code.results.empty()) return Malformed(text);
  for (absl::string_view word :
       absl::StrSplit(ends.second, ' ', absl::SkipEmpty())) {
    int64_t axis = 0;
    if (!absl::SimpleAtoi(word, &axis) ||
        axis < (code.axes.empty() ? 0 : code.axes.back() + 1)) {
      return Malformed(word);
    }
    code.axes.push_back(axis);
  }
  return code;
}

}  // namespace mica
