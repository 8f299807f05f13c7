#include "analysis/sizes/symbolic_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/sizes/polynomial_fit.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/status.h"
#include "framework/ir/program_builder.h"
#include "framework/tensor/size_expression.h"

namespace mica {
namespace {

constexpr size_t kMaxTogether = 32;  // Samples in which several sizes vary.

class Generaliser {
 public:
  Generaliser(absl::Span<const std::string> symbols,
              absl::Span<const SizedProgram> samples, const OpRegistry& ops)
      : symbols_(symbols),
        samples_(samples),
        first_(samples[0].program),
        fit_(static_cast<int>(symbols.size()), PointsOf(samples)),
        builder_(ops, first_.name()),
        new_ids_(static_cast<size_t>(first_.num_values()), kNoValue) {}

  absl::StatusOr<Program> Make() {
    if (!fit_.is_determined()) {
      return Unlike(absl::StrCat("too few sizes are valid, ", samples_.size(),
                                 ", to tell what follows from them"));
    }
    MICA_RETURN_IF_ERROR(CheckAlike());
    builder_.AvoidNumbersOf(first_);
    MICA_RETURN_IF_ERROR(AddDeclarations());
    MICA_RETURN_IF_ERROR(AddConditions(/*of_quotients=*/true));
    MICA_RETURN_IF_ERROR(AddNumbers());
    for (size_t i = 0; i < first_.ops().size(); ++i) {
      const absl::Status status = AddOp(i);
      if (!status.ok()) {
        return Annotate(status, Describe(first_.ops()[i]));
      }
    }
    MICA_RETURN_IF_ERROR(AddConditions(/*of_quotients=*/false));
    for (const Update& update : first_.updates()) {
      MICA_RETURN_IF_ERROR(
          builder_.AddUpdate(new_ids_[update.target], new_ids_[update.value]));
    }
    std::vector<ValueId> outputs;
    for (const ValueId id : first_.outputs()) outputs.push_back(new_ids_[id]);
    return builder_.Build(outputs);
  }

 private:
  static std::vector<std::vector<int64_t>> PointsOf(
      absl::Span<const SizedProgram> samples) {
    std::vector<std::vector<int64_t>> points;
    for (const SizedProgram& sample : samples) points.push_back(sample.sizes);
    return points;
  }

  // All but numbers.
  absl::Status CheckAlike() const {
    const auto updates_of = [](const Program& program) {
      std::vector<std::pair<ValueId, ValueId>> updates;
      for (const Update& update : program.updates()) {
        updates.emplace_back(update.target, update.value);
      }
      return updates;
    };
    for (const SizedProgram& sample : samples_) {
      const Program& program = sample.program;
      if (program.num_values() != first_.num_values() ||
          program.ops().size() != first_.ops().size() ||
          program.constants().size() != first_.constants().size() ||
          program.variables().size() != first_.variables().size() ||
          program.inputs() != first_.inputs() ||
          program.outputs() != first_.outputs() ||
          updates_of(program) != updates_of(first_) ||
          sample.conditions.size() != samples_[0].conditions.size()) {
        return Unlike(absl::StrCat("the program is another at ",
                                   Name(sample.sizes), " than at ",
                                   Name(samples_[0].sizes)));
      }
    }
    return absl::OkStatus();
  }

  std::string Name(absl::Span<const int64_t> sizes) const {
    std::vector<std::string> parts;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      parts.push_back(absl::StrCat(symbols_[i], "=", sizes[i]));
    }
    return absl::StrJoin(parts, ", ");
  }

  // A number, or the symbol that is each sample's.
  absl::StatusOr<Dim> Generalise(absl::Span<const int64_t> values) {
    if (absl::c_all_of(values, [&](int64_t v) { return v == values[0]; })) {
      return values[0];
    }
    const std::vector<int64_t> key(values.begin(), values.end());
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
    std::optional<SizeExpression> expression = Fit(fit_, symbols_, values);
    if (!expression.has_value() && in_types_) expression = FitQuotient(values);
    for (size_t i = 0; !expression.has_value() && i < quotients_.size(); ++i) {
      expression = Fit(quotients_[i].fit, quotients_[i].names, values);
    }
    if (!expression.has_value()) {
      const size_t other = static_cast<size_t>(
          absl::c_find_if(values, [&](int64_t v) { return v != values[0]; }) -
          values.begin());
      return Unlike(absl::StrCat(
          "a number that is ", values[0], " at ", Name(samples_[0].sizes),
          " and ", values[other], " at ", Name(samples_[other].sizes),
          " follows from no sizes in a known way"));
    }
    return known_[key] = SymbolDim(expression->ToString());
  }

  static std::optional<SizeExpression> Fit(const PolynomialFit& fit,
                                           absl::Span<const std::string> names,
                                           absl::Span<const int64_t> values) {
    const auto coefficients = fit.Find(values);
    if (!coefficients.has_value()) return std::nullopt;
    SizeExpression expression;
    for (size_t i = 0; i < coefficients->size(); ++i) {
      if ((*coefficients)[i] == 0) continue;
      SizeExpression::Product product;
      for (const int variable : fit.products()[i]) {
        product.push_back(names[variable]);
      }
      expression.Add((*coefficients)[i], std::move(product));
    }
    return expression;
  }

  // A quotient of one symbol, or of an earlier quotient, with the least
  // divisor. From then on polynomials may have it, too.
  std::optional<SizeExpression> FitQuotient(absl::Span<const int64_t> values) {
    std::optional<PolynomialFit::Quotient> best;
    std::string of;
    const auto look = [&](const std::string& name,
                          absl::Span<const int64_t> at) {
      const auto found = PolynomialFit::FindQuotient(at, values);
      if (!found.has_value()) return;
      if (best.has_value() && best->divisor <= found->divisor) return;
      best = found;
      of = name;
    };
    for (size_t symbol = 0; symbol < symbols_.size(); ++symbol) {
      std::vector<int64_t> at;
      for (const SizedProgram& sample : samples_) {
        at.push_back(sample.sizes[symbol]);
      }
      look(symbols_[symbol], at);
    }
    for (const OfQuotient& earlier : quotients_) {
      look(earlier.name, earlier.values);
    }
    if (!best.has_value()) return std::nullopt;
    SizeExpression dividend;
    dividend.Add(best->factor, {of});
    if (best->summand != 0) dividend.Add(best->summand, {});
    const std::string name =
        absl::StrCat("(", dividend.ToString(), ")/", best->divisor);
    if (quotients_.size() < kMaxQuotients) AddQuotient(name, values);
    SizeExpression expression;
    expression.Add(1, {name});
    return expression;
  }

  // Polynomials in which a quotient stands for the symbol that it is of, and
  // sums of both: more than that isn't told apart, since a remainder below 2 is
  // its own square.
  void AddQuotient(const std::string& name, absl::Span<const int64_t> values) {
    std::vector<std::string> names(symbols_.begin(), symbols_.end());
    std::vector<std::vector<int64_t>> points = PointsOf(samples_);
    std::vector<std::vector<int64_t>> both = points;
    const int of = SymbolOf(values);
    for (size_t i = 0; i < points.size(); ++i) {
      both[i].push_back(values[i]);
      if (of >= 0) points[i][of] = values[i];
    }
    if (of >= 0) {
      PolynomialFit fit(static_cast<int>(names.size()), points);
      names[of] = name;
      quotients_.push_back(
          {name, {values.begin(), values.end()}, names, std::move(fit)});
      names[of] = symbols_[of];
    }
    names.push_back(name);
    PolynomialFit fit(static_cast<int>(names.size()), /*degree=*/1, both);
    quotients_.push_back({name,
                          {values.begin(), values.end()},
                          std::move(names),
                          std::move(fit)});
  }

  // The one symbol that values go by, or -1.
  int SymbolOf(absl::Span<const int64_t> values) const {
    for (size_t symbol = 0; symbol < symbols_.size(); ++symbol) {
      std::map<int64_t, int64_t> by_size;
      bool is_of = true;
      for (size_t i = 0; i < samples_.size() && is_of; ++i) {
        const int64_t size = samples_[i].sizes[symbol];
        is_of = by_size.try_emplace(size, values[i]).first->second == values[i];
      }
      if (is_of) return static_cast<int>(symbol);
    }
    return -1;
  }

  // What `get` takes out of each sample.
  template <typename Get>
  std::vector<int64_t> ValuesOf(Get get) const {
    std::vector<int64_t> values;
    for (const SizedProgram& sample : samples_) values.push_back(get(sample));
    return values;
  }
  // The same of that.
  template <typename Get>
  absl::StatusOr<Dim> GeneraliseBy(Get get) {
    return Generalise(ValuesOf(get));
  }

  absl::StatusOr<TensorType> TypeOf(ValueId id) {
    in_types_ = true;
    absl::StatusOr<TensorType> type = FindType(id);
    in_types_ = false;
    return type;
  }
  absl::StatusOr<TensorType> FindType(ValueId id) {
    TensorType type = first_.type(id);
    for (const SizedProgram& sample : samples_) {
      const TensorType& other = sample.program.type(id);
      if (other.dtype != type.dtype || other.rank() != type.rank() ||
          other.is_scalar != type.is_scalar) {
        return Unlike(absl::StrCat("%", first_.value(id).name, " is ",
                                   type.ToString(), " or ", other.ToString()));
      }
    }
    const bool has_strides =
        absl::c_any_of(samples_, [id](const SizedProgram& sample) {
          return !sample.program.type(id).strides.empty();
        });
    Dims strides;
    for (int i = 0; i < type.rank(); ++i) {
      if (has_strides) {
        MICA_ASSIGN_OR_RETURN(
            const Dim stride, GeneraliseBy([&](const SizedProgram& sample) {
              return sample.program.type(id).EffectiveStrides()[i];
            }));
        strides.push_back(stride);
      }
      MICA_ASSIGN_OR_RETURN(type.dims[i],
                            GeneraliseBy([&](const SizedProgram& sample) {
                              return sample.program.type(id).dims[i];
                            }));
    }
    type.strides = std::move(strides);
    return type;
  }

  absl::Status AddDeclarations() {
    for (const OpDef* def : first_.OpaqueDefs()) {
      MICA_RETURN_IF_ERROR(builder_.DeclareOpaque(def->schema()));
    }
    for (const ValueId id : first_.inputs()) {
      MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
      MICA_ASSIGN_OR_RETURN(
          new_ids_[id],
          builder_.AddInput(first_.value(id).name, std::move(type)));
    }
    for (const Variable& variable : first_.variables()) {
      MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(variable.value));
      if (!type.is_static()) {
        return Unlike(absl::StrCat("variable \"", variable.name, "\" is ",
                                   type.ToString()));
      }
      MICA_ASSIGN_OR_RETURN(
          new_ids_[variable.value],
          builder_.AddVariable(first_.value(variable.value).name, variable.name,
                               std::move(type)));
    }
    for (size_t i = 0; i < first_.constants().size(); ++i) {
      const Constant& constant = first_.constants()[i];
      const bool is_same =
          absl::c_all_of(samples_, [&](const SizedProgram& sample) {
            return sample.program.constants()[i].bytes == constant.bytes;
          });
      if (!is_same) {
        varying_.push_back(i);
        continue;
      }
      MICA_ASSIGN_OR_RETURN(
          new_ids_[constant.value],
          builder_.AddConstant(first_.value(constant.value).name,
                               first_.type(constant.value), constant.bytes));
    }
    return absl::OkStatus();
  }

  // Constants that aren't the same at all sizes. Of tensors whoever reads one
  // is refused.
  absl::Status AddNumbers() {
    for (const size_t i : varying_) {
      const ValueId id = first_.constants()[i].value;
      const TensorType& type = first_.type(id);
      if (!type.is_scalar || !CanReadElement(type.dtype)) continue;
      MICA_ASSIGN_OR_RETURN(
          Argument size, WholeNumber([&](const SizedProgram& sample) {
            const std::vector<uint8_t>& bytes =
                sample.program.constants()[i].bytes;
            return ReadElement(std::string(bytes.begin(), bytes.end()),
                               type.dtype, 0);
          }));
      MICA_ASSIGN_OR_RETURN(
          const OpDef* def,
          builder_.FindOp(type.dtype == DType::kI64 ? "mica.size"
                                                    : "mica.int_add"));
      std::vector<Argument> arguments = {std::move(size)};
      if (type.dtype != DType::kI64) arguments.emplace_back(int64_t{0});
      MICA_ASSIGN_OR_RETURN(
          const auto results,
          builder_.AddOp({.def = def,
                          .arguments = {arguments.begin(), arguments.end()},
                          .types = {ScalarType(type.dtype)}}));
      new_ids_[id] = results[0];
    }
    return absl::OkStatus();
  }

  // Those of quotients come first: ops may be of these. Others are of what ops
  // give.
  absl::Status AddConditions(bool of_quotients) {
    MICA_ASSIGN_OR_RETURN(const OpDef* def,
                          builder_.FindOp("mica.require_size"));
    in_types_ = true;
    for (size_t i = 0; i < samples_[0].conditions.size(); ++i) {
      const SizeCondition& condition = samples_[0].conditions[i];
      if ((condition.divisor > 1) != of_quotients) continue;
      MICA_ASSIGN_OR_RETURN(Dim a,
                            GeneraliseBy([i](const SizedProgram& sample) {
                              return sample.conditions[i].a;
                            }));
      const auto get_b = [i](const SizedProgram& sample) {
        return sample.conditions[i].b;
      };
      if (IsSymbol(a) && condition.divisor > 1) {
        // What it is, whatever it looks like.
        const std::string name =
            absl::StrCat("(", DimToString(a), ")/", condition.divisor);
        AddQuotient(name, ValuesOf(get_b));
        a = SymbolDim(name);
      } else if (condition.divisor > 1) {
        a /= condition.divisor;
      }
      MICA_ASSIGN_OR_RETURN(const Dim b, GeneraliseBy(get_b));
      if ((!IsSymbol(a) && !IsSymbol(b)) || a == b) continue;
      const std::string text =
          absl::StrCat(DimToString(a), condition.relation, DimToString(b));
      if (!conditions_.insert(text).second) continue;
      MICA_RETURN_IF_ERROR(
          builder_
              .AddOp({.def = def,
                      .arguments = {Argument(a), Argument(condition.relation),
                                    Argument(b)}})
              .status());
    }
    in_types_ = false;
    return absl::OkStatus();
  }

  absl::StatusOr<Argument> ArgumentOf(size_t op, size_t index) {
    const Argument& own = first_.ops()[op].arguments[index];
    const auto get = [&](const SizedProgram& sample) -> const Argument& {
      return sample.program.ops()[op].arguments[index];
    };
    if (absl::c_all_of(samples_, [&](const SizedProgram& sample) {
          return get(sample) == own;
        })) {
      if (const auto* ref = std::get_if<ValueRef>(&own);
          ref != nullptr && new_ids_[ref->id] == kNoValue) {
        return Unlike(absl::StrCat("reads %", first_.value(ref->id).name,
                                   ", a constant that goes by sizes"));
      }
      return own;
    }
    if (absl::c_any_of(samples_, [&](const SizedProgram& sample) {
          return get(sample).index() != own.index();
        })) {
      return Unlike("an argument is of another kind at other sizes");
    }
    if (std::holds_alternative<int64_t>(own)) {
      MICA_ASSIGN_OR_RETURN(const Dim dim,
                            GeneraliseBy([&](const SizedProgram& sample) {
                              return std::get<int64_t>(get(sample));
                            }));
      return Argument(dim);
    }
    if (std::holds_alternative<double>(own)) {
      return WholeNumber([&](const SizedProgram& sample) {
        return std::get<double>(get(sample));
      });
    }
    const auto* list = std::get_if<std::vector<int64_t>>(&own);
    if (list == nullptr) return Unlike("an argument is another at other sizes");
    std::vector<int64_t> dims;
    for (size_t i = 0; i < list->size(); ++i) {
      for (const SizedProgram& sample : samples_) {
        if (std::get<std::vector<int64_t>>(get(sample)).size() ==
            list->size()) {
          continue;
        }
        return Unlike("a list of numbers is longer at other sizes");
      }
      MICA_ASSIGN_OR_RETURN(
          dims.emplace_back(), GeneraliseBy([&](const SizedProgram& sample) {
            return std::get<std::vector<int64_t>>(get(sample))[i];
          }));
    }
    return Argument(std::move(dims));
  }

  // A float, or whole number, that follows from sizes: where a number may
  // stand, a size may.
  template <typename Get>
  absl::StatusOr<Argument> WholeNumber(Get get) {
    for (const SizedProgram& sample : samples_) {
      const double number = get(sample);
      if (WholeOf(number).has_value()) continue;
      return Unlike(absl::StrCat("computes with ", number, " at ",
                                 Name(sample.sizes),
                                 ", and with another number elsewhere"));
    }
    MICA_ASSIGN_OR_RETURN(const Dim dim,
                          GeneraliseBy([&](const SizedProgram& sample) {
                            return static_cast<int64_t>(get(sample));
                          }));
    return Argument(dim);
  }

  absl::Status AddOp(size_t index) {
    const Op& op = first_.ops()[index];
    for (const SizedProgram& sample : samples_) {
      const Op& other = sample.program.ops()[index];
      if (other.def->name() == op.def->name() && other.results == op.results &&
          other.arguments.size() == op.arguments.size()) {
        continue;
      }
      return Unlike(
          absl::StrCat("is ", other.def->name(), " at ", Name(sample.sizes)));
    }
    if (!op.bodies.empty()) return Unlike("has bodies");
    MICA_ASSIGN_OR_RETURN(const OpDef* def, builder_.FindOp(op.def->name()));
    ProgramBuilder::OpSpec spec{.def = def, .source = op.source};
    // Types first: what they are divided by, arguments may be.
    for (const ValueId id : op.results) {
      MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
      spec.types.push_back(std::move(type));
      spec.names.push_back(first_.value(id).name);
    }
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      MICA_ASSIGN_OR_RETURN(Argument argument, ArgumentOf(index, i));
      spec.arguments.push_back(std::move(argument));
    }
    RenameValues(spec.arguments, [&](ValueId id) { return new_ids_[id]; });
    MICA_ASSIGN_OR_RETURN(const auto results, builder_.AddOp(std::move(spec)));
    for (size_t i = 0; i < results.size(); ++i) {
      new_ids_[op.results[i]] = results[i];
    }
    return absl::OkStatus();
  }

  const absl::Span<const std::string> symbols_;
  const absl::Span<const SizedProgram> samples_;
  const Program& first_;
  const PolynomialFit fit_;
  ProgramBuilder builder_;
  std::vector<ValueId> new_ids_;
  std::map<std::vector<int64_t>, Dim> known_;  // By the samples' values.
  // A quotient may be looked for: types of results are checked once more when
  // symbols get their sizes, numbers aren't.
  bool in_types_ = false;
  std::vector<size_t> varying_;       // Constants.
  std::set<std::string> conditions_;  // That there are.
  // Polynomials of the symbols and a quotient.
  struct OfQuotient {
    std::string name;
    std::vector<int64_t> values;  // By sample.
    std::vector<std::string> names;
    PolynomialFit fit;
  };
  static constexpr size_t kMaxQuotients = 32;
  std::vector<OfQuotient> quotients_;
};

}  // namespace

absl::StatusOr<Program> MakeSymbolic(absl::Span<const std::string> symbols,
                                     absl::Span<const SizedProgram> samples,
                                     const OpRegistry& ops) {
  if (samples.empty()) return Unlike("no sizes are valid");
  return Generaliser(symbols, samples, ops).Make();
}

std::vector<std::vector<int64_t>> SizesToSample(
    absl::Span<const int64_t> base, absl::Span<const int64_t> least,
    absl::Span<const int64_t> greatest) {
  // By symbol, the nearest first.
  std::vector<std::vector<int64_t>> choices;
  for (size_t i = 0; i < base.size(); ++i) {
    std::vector<int64_t>& own = choices.emplace_back();
    const auto add = [&](int64_t size) {
      if (size < least[i] || size > greatest[i]) return;
      if (!absl::c_linear_search(own, size)) own.push_back(size);
    };
    for (const int64_t by : {0,  1,  2,  3,  5,   -1, -2, 8,  4,   7,  -5,
                             -7, 12, 19, 31, -16, 46, 64, 97, 130, -32}) {
      add(base[i] + by);
    }
    for (const int64_t size : {17, 6, 40}) add(size);
    add(2 * base[i] + 1);
    if (own.empty()) return {};
  }
  std::vector<std::vector<int64_t>> samples;
  // Each alone: what goes by one shows in many.
  for (size_t i = 0; i < choices.size(); ++i) {
    for (size_t k = i == 0 ? 0 : 1; k < choices[i].size(); ++k) {
      std::vector<int64_t>& sample = samples.emplace_back();
      for (const auto& own : choices) sample.push_back(own[0]);
      sample[i] = choices[i][k];
    }
  }
  // Several at once, those that are nearest in all together first.
  const size_t most = samples.size() + kMaxTogether;
  std::vector<size_t> at(choices.size());
  const auto visit = [&](auto&& self, size_t symbol, size_t left) -> void {
    if (symbol == choices.size()) {
      const auto moved = absl::c_count_if(at, [](size_t i) { return i > 0; });
      if (left > 0 || moved < 2 || samples.size() == most) return;
      std::vector<int64_t>& sample = samples.emplace_back();
      for (size_t i = 0; i < at.size(); ++i) {
        sample.push_back(choices[i][at[i]]);
      }
      return;
    }
    for (size_t i = 0; i <= left && i < choices[symbol].size(); ++i) {
      at[symbol] = i;
      self(self, symbol + 1, left - i);
    }
  };
  constexpr size_t kFarthest = 12;
  for (size_t distance = 2; distance <= kFarthest; ++distance) {
    visit(visit, 0, distance);
  }
  return samples;
}

}  // namespace mica
