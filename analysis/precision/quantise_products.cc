#include "analysis/precision/quantise_products.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Sums of int8 products with more terms may not fit 32 bits.
constexpr int64_t kMostTerms = 1 << 16;

// A product that becomes another.
struct Found {
  OpId op = kNoOp;
  ValueId x = kNoValue, weight = kNoValue;  // [k,n] if `is_by_columns`.
  ValueId bias = kNoValue, residual = kNoValue;
  std::string activation = "none";
  bool is_by_columns = false;
  int64_t n = 0, k = 0;
  Precision precision = Precision::kAsWritten;
};

class Quantiser {
 public:
  Quantiser(const Program& program, const OpRegistry& ops, Precision precision)
      : program_(program),
        precision_(precision),
        is_frozen_(program.num_values(), false),
        is_read_by_product_(program.num_values(), false),
        rewriter_(program, ops) {
    Look();
  }

  const std::vector<Found>& found() const { return found_; }
  absl::StatusOr<Program> Quantise();
  // Without updates; outputs are the measures.
  absl::StatusOr<Program> Measure();

 private:
  void Look();
  std::optional<Found> Product(OpId id) const;
  // The weight's parts: values, scales and, of int4, offsets.
  absl::StatusOr<std::vector<ValueId>> Weight(const Found& found);
  absl::StatusOr<ValueId> EmitProduct(const Found& found);
  absl::StatusOr<absl::InlinedVector<ValueId, 1>> Add(absl::string_view name,
                                                      Arguments arguments,
                                                      const SourceLine& source);
  absl::StatusOr<ValueId> Sum(ValueId a, ValueId b, const SourceLine& source);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  Argument New(ValueId value) const {
    return value == kNoValue ? Argument() : ValueRef{rewriter_.NewId(value)};
  }

  const Program& program_;
  const Precision precision_;
  // By value: it depends on variables alone that keep their values.
  std::vector<bool> is_frozen_;
  // By value: a further product depends on it.
  std::vector<bool> is_read_by_product_;
  std::vector<Found> found_;
  // Of weights that several products read, by their value and precision.
  absl::flat_hash_map<std::pair<ValueId, int>, std::vector<ValueId>> weights_;
  Rewriter rewriter_;
};

void Quantiser::Look() {
  for (const Variable& variable : program_.variables()) {
    is_frozen_[variable.value] = true;
  }
  for (const Update& update : program_.updates()) {
    is_frozen_[update.target] = false;
  }
  for (const Op& op : program_.ops()) {
    bool reads = false, reads_other = false;
    ForEachValue(op.arguments, [&](ValueId id) {
      reads = true;
      reads_other |=
          !is_frozen_[id] && program_.value(id).kind != ValueKind::kConstant;
    });
    if (!reads || reads_other || op.def->has_effect() || op.def->is_opaque() ||
        !op.bodies.empty()) {
      continue;
    }
    for (ValueId id : op.results) is_frozen_[id] = true;
  }
  for (auto id = static_cast<OpId>(program_.ops().size()) - 1; id >= 0; --id) {
    bool leads_on = op(id).def->is_contraction() || !op(id).bodies.empty();
    for (ValueId result : op(id).results) {
      leads_on |= is_read_by_product_[result];
    }
    if (!leads_on) continue;
    ForEachValue(op(id).arguments,
                 [&](ValueId value) { is_read_by_product_[value] = true; });
  }
  for (OpId id = 0; id < static_cast<OpId>(program_.ops().size()); ++id) {
    if (auto found = Product(id)) found_.push_back(*std::move(found));
  }
}

std::optional<Found> Quantiser::Product(OpId id) const {
  const Op& op = this->op(id);
  const std::string& name = op.def->name();
  const auto value = [&](int param) {
    return ProgramFacts::ValueOf(op, param);
  };
  Found found{.op = id};
  if (name == "mica.linear") {
    found.x = value(0);
    found.weight = value(1);
    found.bias = value(2);
    found.residual = value(3);
    found.activation = std::get<std::string>(op.arguments[4]);
  } else if (name == "aten.mm" || name == "aten.addmm") {
    const int first = name == "aten.mm" ? 0 : 1;
    found.x = value(first);
    found.weight = value(first + 1);
    found.is_by_columns = true;
    if (first == 1) {
      found.bias = value(0);
      const TensorType& result = program_.type(op.results[0]);
      if (program_.type(found.bias).dims != Dims{result.dims[1]} ||
          !IsNumber(op.arguments[3], 1) || !IsNumber(op.arguments[4], 1)) {
        return std::nullopt;
      }
    }
  } else {
    return std::nullopt;
  }
  const TensorType& weight = program_.type(found.weight);
  const TensorType& x = program_.type(found.x);
  if (!is_frozen_[found.weight] || is_frozen_[found.x] ||
      weight.dtype != DType::kF32 || x.dtype != DType::kF32 ||
      !program_.type(op.results[0]).is_row_major()) {
    return std::nullopt;
  }
  found.n = weight.dims[found.is_by_columns ? 1 : 0];
  found.k = weight.dims[found.is_by_columns ? 0 : 1];
  if (found.n < kFewestQuantised || found.k < kFewestQuantised ||
      found.k >= kMostTerms) {
    return std::nullopt;
  }
  found.precision =
      is_read_by_product_[op.results[0]] ? precision_ : Precision::kInt8Weights;
  return found;
}

absl::StatusOr<absl::InlinedVector<ValueId, 1>> Quantiser::Add(
    absl::string_view name, Arguments arguments, const SourceLine& source) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(name));
  return builder.AddOp(
      {.def = def, .arguments = std::move(arguments), .source = source});
}

absl::StatusOr<std::vector<ValueId>> Quantiser::Weight(const Found& found) {
  const SourceLine& source = op(found.op).source;
  const bool is_int4 = found.precision == Precision::kInt4Weights;
  // Of one that is read as [n,k] and as [k,n] there are two.
  const std::pair<ValueId, int> key = {
      found.weight, 2 * static_cast<int>(is_int4) + found.is_by_columns};
  std::vector<ValueId>& parts = weights_[key];
  if (!parts.empty()) return parts;
  ValueId weight = rewriter_.NewId(found.weight);
  if (found.is_by_columns) {
    MICA_ASSIGN_OR_RETURN(auto turned,
                          Add("aten.t", {ValueRef{weight}}, source));
    weight = turned[0];
  }
  Arguments arguments = {ValueRef{weight}};
  if (is_int4) arguments.push_back(kInt4Group);
  MICA_ASSIGN_OR_RETURN(
      auto made, Add(is_int4 ? "mica.quantise_int4" : "mica.quantise_int8",
                     std::move(arguments), source));
  parts.assign(made.begin(), made.end());
  return parts;
}

absl::StatusOr<ValueId> Quantiser::EmitProduct(const Found& found) {
  MICA_ASSIGN_OR_RETURN(const std::vector<ValueId> parts, Weight(found));
  Arguments arguments = {New(found.x)};
  for (ValueId part : parts) arguments.push_back(ValueRef{part});
  arguments.push_back(New(found.bias));
  arguments.push_back(New(found.residual));
  arguments.push_back(found.activation);
  const bool is_int4 = found.precision == Precision::kInt4Weights;
  if (is_int4) {
    arguments.push_back(kInt4Group);
  } else {
    arguments.push_back(found.precision == Precision::kInt8);
  }
  MICA_ASSIGN_OR_RETURN(auto made,
                        Add(is_int4 ? "mica.int4_linear" : "mica.int8_linear",
                            std::move(arguments), op(found.op).source));
  return made[0];
}

absl::StatusOr<Program> Quantiser::Quantise() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  auto next = found_.begin();
  for (OpId id = 0; id < static_cast<OpId>(program_.ops().size()); ++id) {
    if (next == found_.end() || next->op != id) {
      MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
      continue;
    }
    MICA_ASSIGN_OR_RETURN(const ValueId made, EmitProduct(*next));
    rewriter_.Map(op(id).results[0], made);
    ++next;
  }
  return rewriter_.Finish();
}

// Of a * b, over all elements.
absl::StatusOr<ValueId> Quantiser::Sum(ValueId a, ValueId b,
                                       const SourceLine& source) {
  MICA_ASSIGN_OR_RETURN(
      auto product, Add("aten.mul.Tensor", {ValueRef{a}, ValueRef{b}}, source));
  MICA_ASSIGN_OR_RETURN(auto sum,
                        Add("aten.sum", {ValueRef{product[0]}}, source));
  return sum[0];
}

absl::StatusOr<Program> Quantiser::Measure() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  std::vector<ValueId> outputs;
  auto next = found_.begin();
  for (OpId id = 0; id < static_cast<OpId>(program_.ops().size()); ++id) {
    MICA_RETURN_IF_ERROR(rewriter_.CopyOp(op(id)));
    if (next == found_.end() || next->op != id) continue;
    const SourceLine& source = op(id).source;
    const ValueId own = rewriter_.NewId(op(id).results[0]);
    MICA_ASSIGN_OR_RETURN(const ValueId other, EmitProduct(*next));
    MICA_ASSIGN_OR_RETURN(
        auto difference,
        Add("aten.sub.Tensor", {ValueRef{own}, ValueRef{other}}, source));
    const std::pair<ValueId, ValueId> factors[] = {
        {difference[0], difference[0]},
        {own, own},
        {other, other},
        {own, other}};
    for (const auto& [a, b] : factors) {
      MICA_ASSIGN_OR_RETURN(const ValueId sum, Sum(a, b, source));
      outputs.push_back(sum);
    }
    ++next;
  }
  return rewriter_.builder().Build(outputs);
}

}  // namespace

absl::StatusOr<Program> QuantiseProducts(const Program& program,
                                         const OpRegistry& ops,
                                         Precision precision) {
  if (precision == Precision::kAsWritten) return program;
  Quantiser quantiser(program, ops, precision);
  if (quantiser.found().empty()) return program;
  MICA_ASSIGN_OR_RETURN(Program made, quantiser.Quantise());
  return RemoveDeadOps(std::move(made), ops);
}

absl::StatusOr<MeasuredProducts> MeasureProducts(const Program& program,
                                                 const OpRegistry& ops,
                                                 Precision precision) {
  Quantiser quantiser(program, ops, precision);
  MICA_ASSIGN_OR_RETURN(Program made, quantiser.Measure());
  MeasuredProducts measured{.program = std::move(made)};
  for (const Found& found : quantiser.found()) {
    measured.products.push_back({.source = program.ops()[found.op].source,
                                 .n = found.n,
                                 .k = found.k,
                                 .precision = found.precision});
  }
  return measured;
}

}  // namespace mica
