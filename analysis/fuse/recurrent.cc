#include "analysis/fuse/recurrent.h"

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

using Pair = std::array<ValueId, 2>;

// Columns of all gates: gate number (offset - begin) / width.
struct Gate {
  ValueId base = kNoValue;
  int64_t offset = 0;
};

struct GruMatch {
  ValueId input_gates = kNoValue;  // With columns from `input_offset` on.
  int64_t input_offset = 0;
  ValueId hidden_gates = kNoValue;
  ValueId hidden = kNoValue;
};

class GruFinder {
 public:
  GruFinder(const Program& program, const KernelRegistry& kernels)
      : program_(program), kernels_(kernels), facts_(program) {}

  // (h - n) * z + n, from its last op.
  std::optional<GruMatch> Find(OpId last) const;

 private:
  // The two operands of a binary op by this name, its scale being 1.
  std::optional<Pair> Operands(ValueId value, absl::string_view name) const;
  // The operand of a unary op by this name.
  ValueId Operand(ValueId value, absl::string_view name) const;
  // f32[b,h] with the strides of a third of a row.
  std::optional<Gate> GateAt(ValueId value, const TensorType& hidden) const;
  bool MatchState(ValueId product, ValueId next, ValueId& hidden,
                  ValueId& update) const;
  // sigmoid(input + hidden) of gate number `gate`.
  bool MatchGate(ValueId value, int64_t gate, const GruMatch& match) const;
  bool IsGate(ValueId value, ValueId base, int64_t offset,
              const GruMatch& match) const;

  const Program& program_;
  const KernelRegistry& kernels_;
  const ProgramFacts facts_;
};

std::optional<Pair> GruFinder::Operands(ValueId value,
                                        absl::string_view name) const {
  const OpId id = facts_.ProducerOf(value);
  if (!facts_.Is(id, name)) return std::nullopt;
  const Op& op = facts_.op(id);
  const Pair pair = {ProgramFacts::ValueOf(op, 0),
                     ProgramFacts::ValueOf(op, 1)};
  if (pair[0] == kNoValue || pair[1] == kNoValue) return std::nullopt;
  if (op.arguments.size() > 2 && !IsNumber(op.arguments[2], 1)) {
    return std::nullopt;
  }
  return pair;
}

ValueId GruFinder::Operand(ValueId value, absl::string_view name) const {
  const OpId id = facts_.ProducerOf(value);
  return facts_.Is(id, name) ? ProgramFacts::ValueOf(facts_.op(id), 0)
                             : kNoValue;
}

std::optional<Gate> GruFinder::GateAt(ValueId value,
                                      const TensorType& hidden) const {
  const OpId id = facts_.ProducerOf(value);
  const TensorType& type = program_.type(value);
  if (!facts_.Is(id, "aten.as_strided") || type.dims != hidden.dims) {
    return std::nullopt;
  }
  const Dims strides = type.EffectiveStrides();
  const int64_t rows = type.dims[0], n = type.dims[1];
  const Op& op = facts_.op(id);
  const auto* offset = std::get_if<int64_t>(&op.arguments[3]);
  const Gate gate = {.base = ProgramFacts::ValueOf(op, 0),
                     .offset = offset == nullptr ? 0 : *offset};
  if (offset == nullptr || (n > 1 && strides[1] != 1) ||
      (rows > 1 && strides[0] != 3 * n) ||
      !program_.type(gate.base).is_row_major()) {
    return std::nullopt;
  }
  return gate;
}

bool GruFinder::IsGate(ValueId value, ValueId base, int64_t offset,
                       const GruMatch& match) const {
  const auto gate = GateAt(value, program_.type(match.hidden));
  return gate.has_value() && gate->base == base && gate->offset == offset;
}

bool GruFinder::MatchGate(ValueId value, int64_t gate,
                          const GruMatch& match) const {
  const auto sum = Operands(Operand(value, "aten.sigmoid"), "aten.add.Tensor");
  const int64_t at = gate * program_.type(match.hidden).dims[1];
  for (int first : {0, 1}) {
    if (sum.has_value() &&
        IsGate((*sum)[first], match.input_gates, match.input_offset + at,
               match) &&
        IsGate((*sum)[1 - first], match.hidden_gates, at, match)) {
      return true;
    }
  }
  return false;
}

bool GruFinder::MatchState(ValueId product, ValueId next, ValueId& hidden,
                           ValueId& update) const {
  const auto factors = Operands(product, "aten.mul.Tensor");
  if (!factors.has_value()) return false;
  for (int first : {0, 1}) {
    const auto rest = Operands((*factors)[first], "aten.sub.Tensor");
    if (rest.has_value() && (*rest)[1] == next) {
      hidden = (*rest)[0];
      update = (*factors)[1 - first];
      return true;
    }
  }
  return false;
}

std::optional<GruMatch> GruFinder::Find(OpId last) const {
  if (facts_.op(last).results.empty()) return std::nullopt;
  const ValueId result = facts_.op(last).results[0];
  const TensorType& type = program_.type(result);
  const auto sum = Operands(result, "aten.add.Tensor");
  if (!sum.has_value() || type.rank() != 2 ||
      !kernels_.HasFast("mica.gru_cell", type.dtype)) {
    return std::nullopt;
  }
  for (int first : {0, 1}) {
    GruMatch match;
    ValueId update = kNoValue;
    const ValueId next = (*sum)[first];
    const auto inner = Operands(Operand(next, "aten.tanh"), "aten.add.Tensor");
    if (!inner.has_value() ||
        !MatchState((*sum)[1 - first], next, match.hidden, update) ||
        !(program_.type(match.hidden).dims == type.dims)) {
      continue;
    }
    const int64_t n = type.dims[1];
    for (int in : {0, 1}) {
      const auto input = GateAt((*inner)[in], type);
      const auto scaled = Operands((*inner)[1 - in], "aten.mul.Tensor");
      if (!input.has_value() || !scaled.has_value()) continue;
      match.input_gates = input->base;
      match.input_offset = input->offset - 2 * n;
      for (int gate : {0, 1}) {
        const auto hidden = GateAt((*scaled)[gate], type);
        if (!hidden.has_value() || hidden->offset != 2 * n) continue;
        match.hidden_gates = hidden->base;
        const bool fits =
            program_.type(hidden->base).dims == Dims{type.dims[0], 3 * n} &&
            program_.type(input->base).dtype == type.dtype;
        if (fits && match.input_offset >= 0 &&
            MatchGate((*scaled)[1 - gate], 0, match) &&
            MatchGate(update, 1, match)) {
          return match;
        }
      }
    }
  }
  return std::nullopt;
}

absl::Status EmitCell(const Op& op, const GruMatch& match,
                      const Program& program, Rewriter& rewriter) {
  const TensorType& type = program.type(op.results[0]);
  const int64_t rows = type.dims[0], width = 3 * type.dims[1];
  MICA_ASSIGN_OR_RETURN(
      ValueId gates, rewriter.builder().Add(
                         "aten.as_strided",
                         {ValueRef{rewriter.NewId(match.input_gates)},
                          std::vector<int64_t>{rows, width},
                          std::vector<int64_t>{width, 1}, match.input_offset},
                         op.source));
  MICA_ASSIGN_OR_RETURN(const OpDef* def,
                        rewriter.builder().FindOp("mica.gru_cell"));
  MICA_ASSIGN_OR_RETURN(
      auto results,
      rewriter.builder().AddOp(
          {.def = def,
           .arguments = {ValueRef{gates},
                         ValueRef{rewriter.NewId(match.hidden_gates)},
                         ValueRef{rewriter.NewId(match.hidden)}},
           .types = {type},
           .source = op.source}));
  rewriter.Map(op.results[0], results[0]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> FuseRecurrent(Program program, const OpRegistry& ops,
                                      const KernelRegistry& kernels) {
  const GruFinder finder(program, kernels);
  std::vector<std::optional<GruMatch>> matches;
  bool has_matches = false;
  for (size_t i = 0; i < program.ops().size(); ++i) {
    matches.push_back(finder.Find(static_cast<OpId>(i)));
    has_matches = has_matches || matches.back().has_value();
  }
  if (!has_matches) return program;
  Rewriter rewriter(program, ops);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (size_t i = 0; i < program.ops().size(); ++i) {
    const Op& op = program.ops()[i];
    MICA_RETURN_IF_ERROR(matches[i].has_value()
                             ? EmitCell(op, *matches[i], program, rewriter)
                             : rewriter.CopyOp(op));
  }
  MICA_ASSIGN_OR_RETURN(Program fused, rewriter.Finish());
  return RemoveDeadOps(std::move(fused), ops);
}

}  // namespace mica
