#include "analysis/fuse/region_rules.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "framework/tensor/half.h"
#include "framework/tensor/promotion.h"
#include "glog/logging.h"

namespace mica {
namespace {

// A rule's code is a region's, but pI is the op's parameter I, and types are
//
//   t  the result's dtype
//   c  what that is computed in: f32 for floats of 16 bits
//   q  what the parameters promote to, r what that is computed in
//
// so that an op of several instructions is rounded once, as eager does it.
// "p1:q" is the parameter rounded to that type first, where eager makes a
// tensor of a number. A rule counts if all parameters that its code names are
// given, and those that `given` names are as it says: "p2=none p3=floor". It
// may want a dtype of the result, too, where eager computes differently in it:
// "t=bf16".
// Of an operator's rules the first that counts is taken.
struct Rule {
  absl::string_view op;
  absl::string_view code;
  absl::string_view given = "";
};

constexpr Rule kRules[] = {
    // Of one number.
    {"aten.neg", "neg.t p0"},
    {"aten.abs", "abs.t p0"},
    {"aten.sign", "sign.t p0"},
    {"aten.sgn", "sign.t p0"},
    {"aten.relu", "relu.t p0"},
    {"aten.square", "square.t p0"},
    {"aten.floor", "floor.t p0"},
    {"aten.ceil", "ceil.t p0"},
    {"aten.trunc", "trunc.t p0"},
    {"aten.round", "round.t p0"},
    {"aten.frac", "trunc.c p0; sub.t p0 $0"},
    {"aten.reciprocal", "reciprocal.t p0"},
    {"aten.sqrt", "sqrt.t p0"},
    {"aten.rsqrt", "rsqrt.t p0"},
    {"aten.exp", "exp.t p0"},
    {"aten.exp2", "exp2.t p0"},
    {"aten.expm1", "expm1.t p0"},
    {"aten.log", "log.t p0"},
    {"aten.log2", "log2.t p0"},
    {"aten.log10", "log10.t p0"},
    {"aten.log1p", "log1p.t p0"},
    {"aten.sin", "sin.t p0"},
    {"aten.cos", "cos.t p0"},
    {"aten.tan", "tan.t p0"},
    {"aten.asin", "asin.t p0"},
    {"aten.acos", "acos.t p0"},
    {"aten.atan", "atan.t p0"},
    {"aten.sinh", "sinh.t p0"},
    {"aten.cosh", "cosh.t p0"},
    {"aten.tanh", "tanh.t p0"},
    {"aten.asinh", "asinh.t p0"},
    {"aten.acosh", "acosh.t p0"},
    {"aten.atanh", "atanh.t p0"},
    {"aten.erf", "erf.t p0"},
    {"aten.erfc", "erfc.t p0"},
    {"aten.erfinv", "erfinv.t p0"},
    {"aten.lgamma", "lgamma.t p0"},
    {"aten.digamma", "digamma.t p0"},
    {"aten.sigmoid", "sigmoid.t p0"},
    {"aten.silu", "silu.t p0"},
    {"aten.gelu", "gelu.t p0", "p1=none"},
    {"aten.gelu", "gelu_tanh.t p0", "p1=tanh"},
    {"aten.mish", "exp.c p0; log1p.c $0; tanh.c $1; mul.t p0 $2"},
    {"aten.logit", "sub.t 1 p0; div.t p0 $0; log.t $1", "p1=none"},
    {"aten._to_copy", "cast.t p0"},
    // Activations with numbers.
    {"aten.leaky_relu", "gt.c p0 0; mul.c p0 p1; where.t $0 p0 $1"},
    {"aten.elu",
     "lt.c p0 0; mul.c p0 p3; expm1.c $1; mul.c p1 p2; mul.c $2 $3; "
     "mul.c p0 p2; where.t $0 $4 $5"},
    {"aten.celu",
     "lt.c p0 0; div.c 1 p1; mul.c p0 $1; expm1.c $2; mul.c p1 $3; "
     "where.t $0 $4 p0"},
    {"aten.hardtanh", "maximum.t p0 p1:t; minimum.t $0 p2:t"},
    {"aten.hardsigmoid",
     "add.c p0 3; maximum.c $0 0; minimum.c $1 6; div.t $2 6"},
    {"aten.hardswish",
     "add.c p0 3; maximum.c $0 0; minimum.c $1 6; mul.c p0 $2; div.t $3 6"},
    {"aten.softplus",
     "mul.c p0 p1; exp.c $0; log1p.c $1; div.c $2 p1; gt.c $0 p2; "
     "where.t $4 p0 $3"},
    {"aten.threshold", "le.c p0 p1; where.t $0 p2 p0"},
    {"aten.clamp", "maximum.t p0 p1:t; minimum.t $0 p2:t"},
    {"aten.clamp", "maximum.t p0 p1:t", "p2=none"},
    {"aten.clamp", "minimum.t p0 p2:t", "p1=none"},
    {"aten.clamp.Tensor", "maximum.t p0 p1; minimum.t $0 p2"},
    {"aten.clamp.Tensor", "maximum.t p0 p1", "p2=none"},
    {"aten.clamp.Tensor", "minimum.t p0 p2", "p1=none"},
    {"aten.clamp_min", "maximum.t p0 p1:t"},
    {"aten.clamp_min.Tensor", "maximum.t p0 p1"},
    {"aten.clamp_max", "minimum.t p0 p1:t"},
    {"aten.clamp_max.Tensor", "minimum.t p0 p1"},
    // Arithmetic.
    {"aten.add.Tensor", "add_scaled.t p0:t p1:t p2:t"},
    {"aten.add.Scalar", "add_scaled.t p0 p1:t p2:t"},
    {"aten.sub.Tensor", "sub_scaled.t p0:t p1:t p2:t"},
    {"aten.sub.Scalar", "sub_scaled.t p0 p1:t p2:t"},
    {"aten.rsub.Tensor", "sub_scaled.t p1:t p0:t p2:t"},
    {"aten.rsub.Scalar", "sub_scaled.t p1:t p0 p2:t"},
    {"aten.mul.Tensor", "mul.t p0:t p1"},
    {"aten.mul.Scalar", "mul.t p0 p1"},
    {"aten.div.Tensor", "div.t p0:t p1"},
    {"aten.div.Scalar", "div.t p0 p1"},
    {"aten.maximum", "maximum.t p0 p1"},
    {"aten.minimum", "minimum.t p0 p1"},
    {"aten.fmax", "fmax.t p0 p1"},
    {"aten.fmin", "fmin.t p0 p1"},
    {"aten.lerp.Scalar", "lerp.t p0 p1 p2"},
    {"aten.lerp.Tensor", "lerp.t p0 p1 p2"},
    {"aten.addcmul", "addcmul.t p0 p1 p2 p3"},
    {"aten.addcdiv", "addcdiv.t p0 p1 p2 p3"},
    {"aten.pow.Tensor_Scalar", "square.t p0", "p1=2"},
    {"aten.pow.Tensor_Scalar", "square.t p0; mul.t $0 p0", "p1=3 t=bf16"},
    {"aten.pow.Tensor_Scalar", "square.t p0; reciprocal.t $0", "p1=-2 t=bf16"},
    {"aten.pow.Tensor_Scalar", "cube.t p0", "p1=3"},
    {"aten.pow.Tensor_Scalar", "reciprocal.t p0", "p1=-1"},
    {"aten.pow.Tensor_Scalar", "sqrt.t p0", "p1=0.5"},
    {"aten.pow.Tensor_Scalar", "pow.t p0 p1:t"},
    {"aten.pow.Tensor_Tensor", "pow.t p0 p1"},
    {"aten.pow.Scalar", "pow.t p0:t p1"},
    {"aten.atan2", "atan2.t p0 p1"},
    {"aten.hypot", "hypot.t p0 p1"},
    {"aten.copysign.Tensor", "copysign.t p0 p1"},
    {"aten.remainder.Tensor", "remainder.t p0 p1"},
    {"aten.remainder.Scalar", "remainder.t p0 p1:t"},
    {"aten.fmod.Tensor", "fmod.t p0 p1"},
    {"aten.fmod.Scalar", "fmod.t p0 p1:t"},
    {"aten.xlogy.Tensor",
     "log.t p1; mul.t p0 $0; eq.c p0 0; where.t $2 0 $1; ne.c p1 p1; "
     "where.t $4 p1 $3"},
    // Truth.
    {"aten.eq.Tensor", "eq.q p0:q p1:q"},
    {"aten.eq.Scalar", "eq.q p0:q p1:q"},
    {"aten.ne.Tensor", "ne.q p0:q p1:q"},
    {"aten.ne.Scalar", "ne.q p0:q p1:q"},
    {"aten.lt.Tensor", "lt.q p0:q p1:q"},
    {"aten.lt.Scalar", "lt.q p0:q p1:q"},
    {"aten.le.Tensor", "le.q p0:q p1:q"},
    {"aten.le.Scalar", "le.q p0:q p1:q"},
    {"aten.gt.Tensor", "gt.q p0:q p1:q"},
    {"aten.gt.Scalar", "gt.q p0:q p1:q"},
    {"aten.ge.Tensor", "ge.q p0:q p1:q"},
    {"aten.ge.Scalar", "ge.q p0:q p1:q"},
    {"aten.isnan", "ne.q p0 p0"},
    {"aten.isinf", "copysign.r p0 1; eq.r $0 inf"},
    {"aten.isfinite", "copysign.r p0 1; lt.r $0 inf"},
    {"aten.logical_not", "not.bool p0"},
    {"aten.logical_and", "and.bool p0 p1"},
    {"aten.logical_or", "or.bool p0 p1"},
    {"aten.logical_xor", "xor.bool p0 p1"},
    {"aten.bitwise_not", "not.t p0"},
    {"aten.bitwise_and.Tensor", "and.t p0 p1"},
    {"aten.bitwise_and.Scalar", "and.t p0 p1"},
    {"aten.bitwise_or.Tensor", "or.t p0 p1"},
    {"aten.bitwise_or.Scalar", "or.t p0 p1"},
    {"aten.bitwise_xor.Tensor", "xor.t p0 p1"},
    {"aten.bitwise_xor.Scalar", "xor.t p0 p1"},
    {"aten.where.self", "where.t p0 p1 p2"},
    {"aten.where.ScalarOther", "where.t p0 p1 p2"},
    {"aten.where.ScalarSelf", "where.t p0 p1 p2"},
    {"aten.where.Scalar", "where.t p0 p1 p2"},
    {"aten.masked_fill.Scalar", "where.t p1 p2 p0"},
    {"aten.masked_fill.Tensor", "where.t p1 p2 p0"},
    // Slopes.
    {"aten.threshold_backward", "le.c p1 p2; where.t $0 0 p0"},
    {"aten.sigmoid_backward", "sub.t 1 p1; mul.t p0 $0; mul.t $1 p1", "t=f16"},
    {"aten.sigmoid_backward", "sigmoid_backward.t p0 p1"},
    {"aten.tanh_backward", "tanh_backward.t p0 p1"},
    {"aten.leaky_relu_backward", "gt.c p1 0; mul.c p0 p2; where.t $0 p0 $1"},
    {"aten.hardtanh_backward",
     "le.t p1 p2:t; ge.t p1 p3:t; or.bool $0 $1; where.t $2 0 p0"},
    {"aten.hardswish_backward",
     "div.c p1 3; add.c $0 0.5; mul.c p0 $1; lt.c p1 3; where.c $3 $2 p0; "
     "le.c p1 -3; where.t $5 0 $4"},
    {"aten.silu_backward",
     "sigmoid.c p1; sub.c 1 $0; mul.c p1 $1; add.c 1 $2; mul.c p0 $0; "
     "mul.t $4 $3"},
    {"aten.gelu_backward",
     "mul.c p1 0.70710678118654752; erf.c $0; add.c $1 1; mul.c $2 0.5; "
     "mul.c p1 p1; mul.c $4 -0.5; exp.c $5; mul.c $6 0.3989422804014327; "
     "mul.c p1 $7; add.c $3 $8; mul.t p0 $9",
     "p2=none"},
    {"aten.gelu_backward",
     "mul.c p1 p1; mul.c $0 p1; mul.c 0.044715 $1; add.c p1 $2; "
     "mul.c 0.79788456080286536 $3; tanh.c $4; mul.c 0.5 p1; add.c 1 $5; "
     "mul.c 0.5 $7; mul.c $5 $5; sub.c 1 $9; mul.c 0.134145 $0; "
     "add.c 1 $11; mul.c 0.79788456080286536 $12; mul.c $6 $10; "
     "mul.c $14 $13; add.c $8 $15; mul.t p0 $16",
     "p2=tanh"},
    {"aten.softplus_backward",
     "mul.c p1 p2; exp.c $0; mul.c p0 $1; add.c $1 1; div.c $2 $3; "
     "gt.c $0 p3; where.t $5 p0 $4"},
    {"aten.elu_backward",
     "le.c p5 0; mul.c p1 p2; mul.c p0 p3; mul.c $2 $1; mul.c p5 p3; "
     "exp.c $4; mul.c $3 $5; mul.c p0 p2; where.t $0 $6 $7",
     "p4=false"},
    {"aten.elu_backward",
     "le.c p5 0; mul.c p1 p2; mul.c p0 p3; add.c p5 $1; mul.c $2 $3; "
     "mul.c p0 p2; where.t $0 $4 $5",
     "p4=true"},
    {"aten.native_dropout_backward", "mul.c p1 p2; mul.t p0 $0"},
};

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

ReadyRule Read(const Rule& rule) {
  ReadyRule ready;
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
    for (const Rule& rule : kRules) (*map)[rule.op].push_back(Read(rule));
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

  std::optional<std::vector<RegionStep>> Translate() {
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
    return std::move(steps_);
  }

 private:
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
    steps_.push_back({&RegionOpOf(RegionOpId::kCast), dtype, {operand}});
    return {static_cast<int>(steps_.size()) - 1};
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
    steps_.push_back(std::move(step));
    made_.push_back(static_cast<int>(steps_.size()) - 1);
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
  std::vector<RegionStep> steps_;
  std::vector<int> made_;  // By the rule's step.
};

}  // namespace

std::vector<RegionStep> RegionStepsOf(const Program& program, const Op& op) {
  if (op.results.size() != 1) return {};
  const std::vector<ReadyRule>* rules = RulesOf(op.def->name());
  if (rules == nullptr) return {};
  for (const ReadyRule& rule : *rules) {
    if (auto steps = Translator(program, op, rule).Translate()) {
      return *std::move(steps);
    }
  }
  return {};
}

}  // namespace mica
