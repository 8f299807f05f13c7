#include "framework/op/region_code.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr RegionOp kOps[] = {
    {"neg", 1},           {"abs", 1},           {"relu", 1},
    {"square", 1},        {"cube", 1},          {"reciprocal", 1},
    {"sqrt", 1},          {"rsqrt", 1},         {"exp", 1},
    {"tanh", 1},          {"sigmoid", 1},       {"silu", 1},
    {"add", 2},           {"sub", 2},           {"mul", 2},
    {"div", 2},           {"maximum", 2},       {"minimum", 2},
    {"add_scaled", 2, 1}, {"sub_scaled", 2, 1}, {"lerp", 2, 1},
    {"tanh_backward", 2}, {"addcmul", 3, 1},    {"addcdiv", 3, 1},
};

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
  RegionCode::Instruction instruction;
  instruction.op = words.empty() ? nullptr : FindRegionOp(words[0]);
  if (instruction.op == nullptr ||
      static_cast<int>(words.size()) != instruction.op->arity() + 1) {
    return Malformed(text);
  }
  for (size_t i = 1; i < words.size(); ++i) {
    MICA_ASSIGN_OR_RETURN(RegionCode::Ref ref,
                          ParseRef(words[i], num_instructions));
    const bool is_number = static_cast<int>(i) > instruction.op->num_elements;
    if (is_number && ref.kind == RegionCode::Ref::Kind::kInstruction) {
      return Malformed(text);
    }
    instruction.operands.push_back(ref);
  }
  return instruction;
}

}  // namespace

absl::Span<const RegionOp> RegionOps() { return kOps; }

const RegionOp* FindRegionOp(absl::string_view name) {
  for (const RegionOp& op : kOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

std::string RegionCode::ToText() const {
  std::vector<std::string> lines;
  for (const Instruction& instruction : instructions) {
    std::string line(instruction.op->name);
    for (const Ref& ref : instruction.operands) {
      absl::StrAppend(&line, " ", RefText(ref));
    }
    lines.push_back(std::move(line));
  }
  std::string text = absl::StrCat(absl::StrJoin(lines, "; "), " ->");
  for (int result : results) absl::StrAppend(&text, " $", result);
  return text;
}

absl::StatusOr<RegionCode> RegionCode::Parse(absl::string_view text) {
  const std::vector<absl::string_view> halves = absl::StrSplit(text, "->");
  if (halves.size() != 2) return Malformed(text);
  RegionCode code;
  for (absl::string_view line : absl::StrSplit(halves[0], ';')) {
    const int count = static_cast<int>(code.instructions.size());
    if (count == kMostInstructions) return Malformed("too many instructions");
    MICA_ASSIGN_OR_RETURN(Instruction instruction,
                          ParseInstruction(line, count));
    code.instructions.push_back(std::move(instruction));
  }
  for (absl::string_view word :
       absl::StrSplit(halves[1], ' ', absl::SkipEmpty())) {
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
  return code;
}

}  // namespace mica
