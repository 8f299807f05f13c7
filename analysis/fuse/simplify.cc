#include "analysis/fuse/simplify.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "analysis/lower/fixed_values.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// sqrt(2 / pi), as a program that spells gelu out computes it.
constexpr double kGeluScale = 0.7978845608028654;
constexpr double kGeluCube = 0.044715;

class Simplifier {
 public:
  Simplifier(const Program& program, const OpRegistry& ops,
             const KernelRegistry& kernels)
      : program_(program),
        kernels_(kernels),
        facts_(program),
        gelu_of_(program.ops().size(), kNoValue),
        rewriter_(program, ops) {}

  // Nothing if there is nothing to simplify.
  absl::StatusOr<std::optional<Program>> Run();

 private:
  void FindGelu(OpId tanh);
  void FindLayouts(OpId norm);
  void FindCopy(OpId copy);

  absl::Status Emit(OpId id);
  absl::Status EmitWholeWrite(const Op& op);
  absl::Status EmitGelu(const Op& op, ValueId x);
  absl::Status EmitNorm(const Op& op);
  absl::Status EmitAttentionLayer(const Op& op);
  // The op with its results as retyped_ has them.
  absl::Status EmitRetyped(const Op& op);
  absl::Status EmitCopy(OpId id);

  // Of `mul(x, number)`, in either order of its parts: x.
  std::optional<ValueId> ScaledBy(OpId mul, double number) const;
  // The argument is the number `wanted`, or a constant without dims that is.
  bool IsScalar(const Argument& argument, double wanted) const;
  bool IsWholeWrite(const Op& op) const;
  bool IsPlainAttentionLayer(const Op& op) const;
  // The parameter of which the op's result is a copy; -1 if it is none. Copies
  // of aten.clone's stay as they are, but for where they lie.
  int CopiedParam(const Op& op) const;
  // Nobody but the copy reads what it copies.
  bool IsOnlyReader(OpId copy, ValueId from) const;
  // Nobody can tell the copy that the op makes from what it copies.
  bool IsNeedless(OpId copy) const;

  absl::StatusOr<ValueId> Add(absl::string_view name, Arguments arguments,
                              const Op& from) {
    return rewriter_.builder().Add(name, std::move(arguments), from.source);
  }
  ValueRef NewRef(const Op& op, int param) const {
    return ValueRef{rewriter_.NewId(ProgramFacts::ValueOf(op, param))};
  }
  const TensorType& TypeOf(const Op& op, int param) const {
    return program_.type(ProgramFacts::ValueOf(op, param));
  }

  const Program& program_;
  const KernelRegistry& kernels_;
  const ProgramFacts facts_;
  // At the last op of a gelu that is spelt out: its operand.
  std::vector<ValueId> gelu_of_;
  absl::flat_hash_map<ValueId, TensorType> retyped_;  // Of other strides.
  bool has_changes_ = false;
  Rewriter rewriter_;
};

std::vector<int64_t> ListOf(const Dims& dims) {
  return std::vector<int64_t>(dims.begin(), dims.end());
}

absl::StatusOr<std::optional<Program>> Simplifier::Run() {
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  for (OpId id = 0; id < num_ops; ++id) {
    if (facts_.Is(id, "aten.tanh")) FindGelu(id);
    if (facts_.Is(id, "aten.native_layer_norm")) FindLayouts(id);
    has_changes_ = has_changes_ || IsWholeWrite(facts_.op(id)) ||
                   IsPlainAttentionLayer(facts_.op(id));
    if (CopiedParam(facts_.op(id)) >= 0) FindCopy(id);
  }
  if (!has_changes_) return std::nullopt;
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (OpId id = 0; id < num_ops; ++id) {
    const absl::Status status = Emit(id);
    if (!status.ok()) return Annotate(status, Describe(facts_.op(id)));
  }
  return rewriter_.Finish();
}

bool Simplifier::IsScalar(const Argument& argument, double wanted) const {
  if (IsNumber(argument, wanted)) return true;
  const auto* ref = std::get_if<ValueRef>(&argument);
  if (ref == nullptr) return false;
  const Value& value = program_.value(ref->id);
  if (value.kind != ValueKind::kConstant || value.type->rank() != 0) {
    return false;
  }
  const std::vector<uint8_t>& bytes = program_.constants()[value.index].bytes;
  if (value.type->dtype == DType::kF64 && bytes.size() == sizeof(double)) {
    double number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number == wanted;
  }
  if (value.type->dtype == DType::kF32 && bytes.size() == sizeof(float)) {
    float number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number == static_cast<float>(wanted);
  }
  return false;
}

std::optional<ValueId> Simplifier::ScaledBy(OpId mul, double number) const {
  if (!facts_.Is(mul, "aten.mul.Tensor")) return std::nullopt;
  const Op& op = facts_.op(mul);
  for (int param : {0, 1}) {
    const ValueId x = ProgramFacts::ValueOf(op, param);
    if (x != kNoValue && IsScalar(op.arguments[1 - param], number)) return x;
  }
  return std::nullopt;
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
void Simplifier::FindGelu(OpId tanh) {
  const ValueId y = facts_.op(tanh).results[0];
  const auto sum = ScaledBy(
      facts_.ProducerOf(ProgramFacts::ValueOf(facts_.op(tanh), 0)), kGeluScale);
  if (!sum.has_value()) return;
  const OpId add = facts_.ProducerOf(*sum);
  if (!facts_.Is(add, "aten.add.Tensor") ||
      !IsNumber(facts_.op(add).arguments[2], 1)) {
    return;
  }
  const ValueId x = ProgramFacts::ValueOf(facts_.op(add), 0);
  const auto cube = ScaledBy(
      facts_.ProducerOf(ProgramFacts::ValueOf(facts_.op(add), 1)), kGeluCube);
  if (!cube.has_value() || x == kNoValue) return;
  const OpId pow = facts_.ProducerOf(*cube);
  if (!facts_.Is(pow, "aten.pow.Tensor_Scalar") ||
      ProgramFacts::ValueOf(facts_.op(pow), 0) != x ||
      !IsNumber(facts_.op(pow).arguments[1], 3)) {
    return;
  }
  const OpId plus_one = facts_.OnlyReader(y);
  if (!facts_.Is(plus_one, "aten.add.Tensor") ||
      ProgramFacts::ValueOf(facts_.op(plus_one), 0) != y ||
      !IsScalar(facts_.op(plus_one).arguments[1], 1) ||
      !IsNumber(facts_.op(plus_one).arguments[2], 1)) {
    return;
  }
  const ValueId factor = facts_.op(plus_one).results[0];
  const OpId last = facts_.OnlyReader(factor);
  if (!facts_.Is(last, "aten.mul.Tensor")) return;
  const Op& mul = facts_.op(last);
  const ValueId half =
      ProgramFacts::ValueOf(mul, ProgramFacts::ValueOf(mul, 0) == factor);
  const auto halved = ScaledBy(facts_.ProducerOf(half), 0.5);
  const TensorType& type = program_.type(mul.results[0]);
  if (halved == x && IsFloating(type.dtype) && program_.type(x) == type) {
    gelu_of_[last] = x;
    has_changes_ = true;
  }
}

// Lets pointwise results that a layer norm reads be row-major.
void Simplifier::FindLayouts(OpId norm) {
  const ValueId x = ProgramFacts::ValueOf(facts_.op(norm), 0);
  const OpId producer = facts_.ProducerOf(x);
  if (!program_.type(x).is_row_major() && producer != kNoOp &&
      facts_.op(producer).def->is_elementwise() && facts_.MayChangeStrides(x)) {
    retyped_[x] = program_.type(x);
    retyped_[x].strides.clear();
  }
  // A norm of what isn't row-major reads a copy.
  has_changes_ = has_changes_ || !program_.type(x).is_row_major();
}

int Simplifier::CopiedParam(const Op& op) const {
  const std::string& name = op.def->name();
  const bool is_power =
      name == "aten.pow.Tensor_Scalar" && IsNumber(op.arguments[1], 1) &&
      TypeOf(op, 0).dtype == program_.type(op.results[0]).dtype;
  if (is_power || name == "aten.clone") return 0;
  const bool is_tensor = name == "aten.copy" &&
                         ProgramFacts::ValueOf(op, 1) != kNoValue &&
                         !TypeOf(op, 1).is_scalar;
  return is_tensor ? 1 : -1;
}

// Operators that make memory without contents look at types alone; a copy that
// goes there is another.
bool Simplifier::IsOnlyReader(OpId copy, ValueId from) const {
  const absl::Span<const OpId> readers = facts_.ReadersOf(from);
  return facts_.NumUses(from) == static_cast<int>(readers.size()) &&
         absl::c_all_of(readers, [&](OpId id) {
           return id == copy ||
                  (IsUninitialised(*facts_.op(id).def) &&
                   facts_.OnlyReader(facts_.op(id).results[0]) == copy);
         });
}

// What only a copy reads lies as the copy does if its kernel writes either as
// fast.
void Simplifier::FindCopy(OpId copy) {
  const Op& op = facts_.op(copy);
  const ValueId from = ProgramFacts::ValueOf(op, CopiedParam(op));
  const TensorType& type = program_.type(op.results[0]);
  const bool is_free =
      facts_.Is(facts_.ProducerOf(from),
                "aten._scaled_dot_product_flash_attention_for_cpu_backward") &&
      IsOnlyReader(copy, from) && SameShape(program_.type(from), type) &&
      type.is_dense() && type.rank() > 0 && type.EffectiveStrides().back() == 1;
  if (is_free) retyped_[from] = type;
  has_changes_ = has_changes_ || is_free || op.def->name() != "aten.clone";
}

bool Simplifier::IsNeedless(OpId copy) const {
  const Op& op = facts_.op(copy);
  const ValueId from = ProgramFacts::ValueOf(op, CopiedParam(op));
  if (retyped_.contains(from) && IsOnlyReader(copy, from)) return true;
  if (op.def->name() == "aten.clone") return false;
  const ValueId to = op.results[0];
  if (!SameShape(program_.type(from), program_.type(to))) return false;
  if (facts_.MayChangeStrides(to)) return true;
  const OpId producer = facts_.ProducerOf(from);
  return producer != kNoOp && !facts_.op(producer).def->is_view() &&
         IsOnlyReader(copy, from) && program_.type(from) == program_.type(to);
}

// All elements are replaced, by a tensor that lies as they do.
bool Simplifier::IsWholeWrite(const Op& op) const {
  if (op.def->name() != "mica.scatter_view") return false;
  const TensorType& base = TypeOf(op, 0);
  const TensorType& src = TypeOf(op, 1);
  TensorType written{.dtype = base.dtype, .dims = src.dims};
  const auto* strides = std::get_if<std::vector<int64_t>>(&op.arguments[3]);
  if (strides == nullptr) return false;
  written.strides.assign(strides->begin(), strides->end());
  return base.dtype == src.dtype && base.is_row_major() && src.is_row_major() &&
         written.strides.size() == src.dims.size() && written.is_row_major() &&
         IsNumber(op.arguments[4], 0) &&
         base.num_elements() == src.num_elements();
}

// Self-attention without a mask, of which nobody reads the weights.
bool Simplifier::IsPlainAttentionLayer(const Op& op) const {
  if (op.def->name() != "aten._native_multi_head_attention") return false;
  const auto* needs_weights = std::get_if<bool>(&op.arguments[10]);
  const ValueId query = ProgramFacts::ValueOf(op, 0);
  return query == ProgramFacts::ValueOf(op, 1) &&
         query == ProgramFacts::ValueOf(op, 2) && IsNone(op.arguments[9]) &&
         needs_weights != nullptr && !*needs_weights &&
         kernels_.HasFast("mica.linear", program_.type(query).dtype) &&
         program_.type(query).is_row_major() &&
         program_.type(op.results[0]).is_row_major() &&
         program_.type(query).num_elements() > 0 &&
         TypeOf(op, 5).is_row_major() && TypeOf(op, 7).is_row_major() &&
         facts_.NumUses(op.results[1]) == 0;
}

absl::Status Simplifier::Emit(OpId id) {
  const Op& op = facts_.op(id);
  if (gelu_of_[id] != kNoValue) return EmitGelu(op, gelu_of_[id]);
  if (IsWholeWrite(op)) return EmitWholeWrite(op);
  if (IsPlainAttentionLayer(op)) return EmitAttentionLayer(op);
  if (op.def->name() == "aten.native_layer_norm") return EmitNorm(op);
  const bool is_retyped = absl::c_any_of(
      op.results, [&](ValueId result) { return retyped_.contains(result); });
  if (is_retyped) return EmitRetyped(op);
  if (CopiedParam(op) >= 0) return EmitCopy(id);
  return rewriter_.CopyOp(op);
}

absl::Status Simplifier::EmitWholeWrite(const Op& op) {
  ValueRef src = NewRef(op, 1);
  // In place of a needless copy it may be what that copied, which lies as it
  // likes.
  if (!rewriter_.builder().type(src.id).is_row_major()) {
    MICA_ASSIGN_OR_RETURN(
        src.id, Add("aten.clone", {src, std::string("contiguous_format")}, op));
  }
  MICA_ASSIGN_OR_RETURN(
      ValueId view, Add("aten.view", {src, ListOf(TypeOf(op, 0).dims)}, op));
  rewriter_.Map(op.results[0], view);
  return absl::OkStatus();
}

absl::Status Simplifier::EmitGelu(const Op& op, ValueId x) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def,
                        rewriter_.builder().FindOp("aten.gelu"));
  MICA_ASSIGN_OR_RETURN(
      auto results,
      rewriter_.builder().AddOp(
          {.def = def,
           .arguments = {ValueRef{rewriter_.NewId(x)}, std::string("tanh")},
           .types = {program_.type(op.results[0])},
           .source = op.source}));
  rewriter_.Map(op.results[0], results[0]);
  return absl::OkStatus();
}

absl::Status Simplifier::EmitNorm(const Op& op) {
  const ValueId x = ProgramFacts::ValueOf(op, 0);
  if (rewriter_.builder().type(rewriter_.NewId(x)).is_row_major()) {
    return rewriter_.CopyOp(op);
  }
  MICA_ASSIGN_OR_RETURN(
      ValueId dense,
      Add("aten.clone", {NewRef(op, 0), std::string("contiguous_format")}, op));
  const ValueId before = rewriter_.NewId(x);
  rewriter_.Map(x, dense);
  const absl::Status status = rewriter_.CopyOp(op);
  rewriter_.Map(x, before);
  return status;
}

absl::Status Simplifier::EmitRetyped(const Op& op) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def,
                        rewriter_.builder().FindOp(op.def->name()));
  ProgramBuilder::OpSpec spec{
      .def = def, .arguments = op.arguments, .source = op.source};
  RenameValues(spec.arguments, [&](ValueId id) { return rewriter_.NewId(id); });
  for (ValueId id : op.results) {
    const auto retyped = retyped_.find(id);
    spec.types.push_back(retyped == retyped_.end() ? program_.type(id)
                                                   : retyped->second);
    spec.names.push_back(program_.value(id).name);
  }
  MICA_ASSIGN_OR_RETURN(auto results,
                        rewriter_.builder().AddOp(std::move(spec)));
  for (size_t i = 0; i < op.results.size(); ++i) {
    rewriter_.Map(op.results[i], results[i]);
  }
  return absl::OkStatus();
}

absl::Status Simplifier::EmitCopy(OpId id) {
  const Op& op = facts_.op(id);
  const int param = CopiedParam(op);
  if (IsNeedless(id)) {
    rewriter_.Map(op.results[0],
                  rewriter_.NewId(ProgramFacts::ValueOf(op, param)));
    return absl::OkStatus();
  }
  if (op.def->name() == "aten.clone") return rewriter_.CopyOp(op);
  const TensorType& type = program_.type(op.results[0]);
  ValueRef from = NewRef(op, param);
  if (TypeOf(op, param).dims != type.dims) {
    MICA_ASSIGN_OR_RETURN(from.id,
                          Add("aten.expand", {from, ListOf(type.dims)}, op));
  }
  const bool converts = TypeOf(op, param).dtype != type.dtype;
  MICA_ASSIGN_OR_RETURN(
      const OpDef* def,
      rewriter_.builder().FindOp(converts ? "aten._to_copy" : "aten.clone"));
  Arguments arguments = {from};
  if (converts) arguments.push_back(type.dtype);
  MICA_ASSIGN_OR_RETURN(
      auto results,
      rewriter_.builder().AddOp({.def = def,
                                 .arguments = std::move(arguments),
                                 .types = {type},
                                 .names = {program_.value(op.results[0]).name},
                                 .source = op.source}));
  rewriter_.Map(op.results[0], results[0]);
  return absl::OkStatus();
}

// q, k and v from one product, read where they lie.
absl::Status Simplifier::EmitAttentionLayer(const Op& op) {
  const TensorType& type = TypeOf(op, 0);
  const int64_t batch = type.dims[0], length = type.dims[1];
  const int64_t width = type.dims[2];
  const int64_t heads = std::get<int64_t>(op.arguments[4]);
  const int64_t size = width / heads;
  MICA_ASSIGN_OR_RETURN(
      ValueId rows,
      Add("aten.view",
          {NewRef(op, 0), std::vector<int64_t>{batch * length, width}}, op));
  MICA_ASSIGN_OR_RETURN(ValueId qkv,
                        Add("mica.linear",
                            {ValueRef{rows}, NewRef(op, 5), NewRef(op, 6),
                             Argument(), std::string("none")},
                            op));
  ValueId parts[3];
  for (int64_t i = 0; i < 3; ++i) {
    MICA_ASSIGN_OR_RETURN(
        parts[i],
        Add("aten.as_strided",
            {ValueRef{qkv}, std::vector<int64_t>{batch, heads, length, size},
             std::vector<int64_t>{length * 3 * width, size, 3 * width, 1},
             i * width},
            op));
  }
  const Dims dims = {batch, heads, length, size};
  MICA_ASSIGN_OR_RETURN(
      const OpDef* def,
      rewriter_.builder().FindOp(
          "aten._scaled_dot_product_flash_attention_for_cpu"));
  MICA_ASSIGN_OR_RETURN(
      auto attended,
      rewriter_.builder().AddOp(
          {.def = def,
           .arguments = {ValueRef{parts[0]}, ValueRef{parts[1]},
                         ValueRef{parts[2]}},
           .types = {{.dtype = type.dtype,
                      .dims = dims,
                      .strides = {length * width, size, width, 1}},
                     {.dtype =
                          type.dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                      .dims = {batch, heads, length}}},
           .source = op.source}));
  MICA_ASSIGN_OR_RETURN(
      ValueId joined,
      Add("aten.as_strided",
          {ValueRef{attended[0]}, std::vector<int64_t>{batch * length, width},
           std::vector<int64_t>{width, 1}, int64_t{0}},
          op));
  MICA_ASSIGN_OR_RETURN(ValueId projected,
                        Add("mica.linear",
                            {ValueRef{joined}, NewRef(op, 7), NewRef(op, 8),
                             Argument(), std::string("none")},
                            op));
  MICA_ASSIGN_OR_RETURN(
      ValueId out,
      Add("aten.view", {ValueRef{projected}, ListOf(type.dims)}, op));
  rewriter_.Map(op.results[0], out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> Simplify(Program program, const OpRegistry& ops,
                                 const KernelRegistry& kernels) {
  MICA_ASSIGN_OR_RETURN(auto simple, Simplifier(program, ops, kernels).Run());
  if (!simple.has_value()) return program;
  return RemoveDeadOps(*std::move(simple), ops);
}

}  // namespace mica
