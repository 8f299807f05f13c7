#include "analysis/fuse/region_rules.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "analysis/fuse/region_rule_table.h"
#include "framework/tensor/half.h"
#include "framework/tensor/promotion.h"
#include "glog/logging.h"

namespace mica {
namespace {

// A rule's operand.
struct Source {
  enum class Kind : uint8_t { kParam, kMade, kNumber };
  Kind kind = Kind::kNumber;
  int index = 0;
  char rounded_to = 0;  // A type's letter.
  double number = 0;
};

struct RuleStep {
  const RegionOp* op = nullptr;
  std::string type;  // A letter, or a dtype.
  std::vector<Source> operands;
};

struct ReadyRule {
  std::vector<RuleStep> steps;
  std::vector<std::pair<int, std::string>> given;
  std::optional<DType> dtype;  // Of the result.
  int axes = RegionRule::kNone;
};

int IndexOf(absl::string_view text) {
  int index = 0;
  CHECK(absl::SimpleAtoi(text, &index)) << text;
  return index;
}

Source ReadSource(absl::string_view word) {
  if (word[0] == '$') {
    return {.kind = Source::Kind::kMade, .index = IndexOf(word.substr(1))};
  }
  if (word[0] == 'p') {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word.substr(1), absl::MaxSplits(':', 1));
    return {.kind = Source::Kind::kParam,
            .index = IndexOf(parts.first),
            .rounded_to = parts.second.empty() ? char{0} : parts.second[0]};
  }
  Source source;
  CHECK(absl::SimpleAtod(word, &source.number)) << word;
  return source;
}

ReadyRule Read(const RegionRule& rule) {
  ReadyRule ready{.steps = {}, .given = {}, .dtype = {}, .axes = rule.axes};
  for (absl::string_view line : absl::StrSplit(rule.code, "; ")) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    const std::pair<absl::string_view, std::string> head =
        absl::StrSplit(words[0], '.');
    RuleStep step{
        .op = FindRegionOp(head.first), .type = head.second, .operands = {}};
    CHECK(step.op != nullptr) << line;
    for (size_t i = 1; i < words.size(); ++i) {
      step.operands.push_back(ReadSource(words[i]));
    }
    CHECK_EQ(static_cast<int>(step.operands.size()), step.op->arity) << line;
    ready.steps.push_back(std::move(step));
  }
  for (absl::string_view word :
       absl::StrSplit(rule.given, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, std::string> parts =
        absl::StrSplit(word.substr(1), '=');
    if (word[0] == 't') {
      ready.dtype = ParseDType(parts.second);
    } else {
      ready.given.emplace_back(IndexOf(parts.first), parts.second);
    }
  }
  return ready;
}

const std::vector<ReadyRule>* RulesOf(absl::string_view op) {
  static const auto& by_name = *[] {
    auto* map =
        new absl::flat_hash_map<absl::string_view, std::vector<ReadyRule>>;
    for (const RegionRule& rule : RegionRules()) {
      (*map)[rule.op].push_back(Read(rule));
    }
    return map;
  }();
  const auto it = by_name.find(op);
  return it == by_name.end() ? nullptr : &it->second;
}

// A number that a double holds.
std::optional<double> NumberOf(const Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    constexpr int64_t kLimit = int64_t{1} << 53;
    if (*integer < -kLimit || *integer > kLimit) return std::nullopt;
    return static_cast<double>(*integer);
  }
  if (const auto* real = std::get_if<double>(&argument)) return *real;
  if (const auto* truth = std::get_if<bool>(&argument)) return *truth ? 1 : 0;
  return std::nullopt;
}

bool IsGiven(const Argument& argument, absl::string_view wanted) {
  if (const auto* text = std::get_if<std::string>(&argument)) {
    return *text == wanted;
  }
  if (const auto* truth = std::get_if<bool>(&argument)) {
    return wanted == (*truth ? "true" : "false");
  }
  const std::optional<double> number = NumberOf(argument);
  double value = 0;
  if (number.has_value()) {
    return absl::SimpleAtod(wanted, &value) && value == *number;
  }
  return wanted == "none" && !std::holds_alternative<ValueRef>(argument);
}

// One op by one rule.
class Translator {
 public:
  Translator(const Program& program, const Op& op, const ReadyRule& rule)
      : program_(program), op_(op), rule_(rule) {}

  std::optional<RegionMember> Translate() {
    if (rule_.dtype.has_value() && TypeNamed("t") != *rule_.dtype) {
      return std::nullopt;
    }
    for (const auto& [param, wanted] : rule_.given) {
      if (!IsGiven(op_.arguments[param], wanted)) return std::nullopt;
    }
    if (!Promote()) return std::nullopt;
    for (const RuleStep& step : rule_.steps) {
      if (!Add(step)) return std::nullopt;
    }
    if (rule_.axes != RegionRule::kNone && !FindAxes()) return std::nullopt;
    return std::move(member_);
  }

 private:
  // Which axes go, of operands that are all alike, and whether the result lacks
  // them. False if there are none.
  bool FindAxes() {
    const Dims* dims = nullptr;
    bool is_alike = true;
    ForEachValue(op_.arguments, [&](ValueId id) {
      const TensorType& type = program_.type(id);
      is_alike = is_alike && !type.is_scalar &&
                 (dims == nullptr || type.dims == *dims);
      dims = &type.dims;
    });
    if (!is_alike || dims == nullptr || dims->empty()) return false;
    const auto rank = static_cast<int64_t>(dims->size());
    std::vector<bool> marked(dims->size(), false);
    std::vector<int64_t> given;
    if (rule_.axes != RegionRule::kAll) {
      const Argument& argument = op_.arguments[rule_.axes];
      if (const auto* one = std::get_if<int64_t>(&argument)) given = {*one};
      if (const auto* list = std::get_if<std::vector<int64_t>>(&argument)) {
        given = *list;
      }
    }
    for (int64_t axis : given) marked[axis < 0 ? axis + rank : axis] = true;
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (given.empty() || marked[axis]) member_.axes.push_back(axis);
    }
    std::vector<bool> is_reduced;
    for (const RegionStep& step : member_.steps) {
      bool all = true;
      for (const auto& operand : step.operands) {
        const auto* made = std::get_if<RegionStep::Made>(&operand);
        all = all && !std::holds_alternative<ValueId>(operand) &&
              (made == nullptr || is_reduced[made->index]);
      }
      is_reduced.push_back(step.op->reduces() || all);
    }
    member_.is_reduced = is_reduced.back();
    return true;
  }

  // False if a parameter is neither a value nor a number.
  bool Promote() {
    Promotion promotion;
    for (const RuleStep& step : rule_.steps) {
      for (const Source& source : step.operands) {
        if (source.kind != Source::Kind::kParam) continue;
        const Argument& argument = op_.arguments[source.index];
        if (const auto* ref = std::get_if<ValueRef>(&argument)) {
          if (IsComplex(program_.type(ref->id).dtype)) return false;
          promotion.Add(program_.type(ref->id));
        } else if (NumberOf(argument).has_value()) {
          const DType own =
              std::holds_alternative<double>(argument) ? DType::kF64
              : std::holds_alternative<bool>(argument) ? DType::kBool
                                                       : DType::kI64;
          promotion.Add({.dtype = own, .dims = {}, .is_scalar = true});
        } else {
          return false;
        }
      }
    }
    promoted_ = promotion.dtype();
    return true;
  }

  DType TypeNamed(absl::string_view name) const {
    const DType result = program_.type(op_.results[0]).dtype;
    if (name == "t") return result;
    if (name == "c") return ComputeDType(result);
    if (name == "q") return promoted_;
    if (name == "r") return ComputeDType(promoted_);
    return *ParseDType(name);
  }

  // `operand` rounded to `dtype`, by an instruction if it has to be one.
  RegionStep::Made Round(
      std::variant<ValueId, double, RegionStep::Made> operand, DType dtype) {
    member_.steps.push_back({&RegionOpOf(RegionOpId::kCast), dtype, {operand}});
    return {static_cast<int>(member_.steps.size()) - 1};
  }

  bool Add(const RuleStep& from) {
    RegionStep step{.op = from.op, .dtype = TypeNamed(from.type)};
    if (!step.op->Has(step.dtype)) return false;
    for (const Source& source : from.operands) {
      switch (source.kind) {
        case Source::Kind::kNumber:
          step.operands.emplace_back(source.number);
          break;
        case Source::Kind::kMade:
          step.operands.emplace_back(RegionStep::Made{made_[source.index]});
          break;
        case Source::Kind::kParam:
          AddParam(source, step);
          break;
      }
    }
    DropFactor(step);
    member_.steps.push_back(std::move(step));
    made_.push_back(static_cast<int>(member_.steps.size()) - 1);
    return true;
  }

  void AddParam(const Source& source, RegionStep& step) {
    const Argument& argument = op_.arguments[source.index];
    const auto* ref = std::get_if<ValueRef>(&argument);
    std::variant<ValueId, double, RegionStep::Made> operand;
    if (ref != nullptr) {
      operand = ref->id;
    } else {
      operand = *NumberOf(argument);
    }
    if (source.rounded_to != 0) {
      const DType dtype = TypeNamed(absl::string_view(&source.rounded_to, 1));
      // What is converted to anyway isn't rounded before.
      const bool is_it =
          ref != nullptr && program_.type(ref->id).dtype == dtype;
      if (IsHalf(dtype) && ref == nullptr) {
        operand = RoundedTo(dtype, std::get<double>(operand));
      } else if (IsHalf(dtype) && !is_it) {
        operand = Round(operand, dtype);
      }
    }
    step.operands.push_back(operand);
  }

  // A factor of 1 needs no product.
  static void DropFactor(RegionStep& step) {
    const bool adds = step.op->id == RegionOpId::kAddScaled;
    if (!adds && step.op->id != RegionOpId::kSubScaled) return;
    const double* factor = std::get_if<double>(&step.operands[2]);
    if (factor == nullptr || *factor != 1) return;
    step.op = &RegionOpOf(adds ? RegionOpId::kAdd : RegionOpId::kSub);
    step.operands.pop_back();
  }

  const Program& program_;
  const Op& op_;
  const ReadyRule& rule_;
  DType promoted_ = DType::kF32;
  RegionMember member_;
  std::vector<int> made_;  // By the rule's step.
};

}  // namespace

RegionMember RegionMemberOf(const Program& program, const Op& op) {
  if (op.results.empty()) return {};
  const std::vector<ReadyRule>* rules = RulesOf(op.def->name());
  if (rules == nullptr) return {};
  for (const ReadyRule& rule : *rules) {
    if (auto member = Translator(program, op, rule).Translate()) {
      return *std::move(member);
    }
  }
  return {};
}

}  // namespace mica
