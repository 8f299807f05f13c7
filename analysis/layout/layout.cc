#include "analysis/layout/layout.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "analysis/cost/op_work.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/op/op_def.h"

namespace mica {
namespace {

// What an op does with operands whose elements lie otherwise than recorded.
enum class Manner {
  kLeads,    // Gives channels-last results, takes any operands.
  kFollows,  // Takes any, gives its result the strides of its operands.
  kReduces,  // Takes any, gives what was recorded.
  kInsists,  // Wants row-major operands, or those recorded.
};

bool HasImageKernels(DType dtype) {
  return dtype == DType::kF32 || IsHalf(dtype);
}

Manner MannerOf(const Program& program, const Op& op,
                const std::vector<int>& uses) {
  if (op.results.empty()) return Manner::kInsists;
  const absl::string_view name = op.def->name();
  const TensorType& result = program.type(op.results[0]);
  if (IsConvolution(op)) {
    const bool leads = result.rank() == 4 && HasImageKernels(result.dtype) &&
                       !std::get<bool>(op.arguments[6]);
    return leads ? Manner::kLeads : Manner::kInsists;
  }
  if (op.def->is_elementwise()) return Manner::kFollows;
  if (!HasImageKernels(result.dtype)) return Manner::kInsists;
  if (name == "aten.max_pool2d_with_indices") {
    return uses[op.results[1]] == 0 ? Manner::kFollows : Manner::kInsists;
  }
  static const absl::flat_hash_set<absl::string_view> following = {
      "aten.avg_pool2d", "aten._adaptive_avg_pool2d", "aten.cat",
      "aten.constant_pad_nd", "mica.scale_channels"};
  if (following.contains(name)) return Manner::kFollows;
  static const absl::flat_hash_set<absl::string_view> reducing = {
      "aten.mean.dim", "aten.clone", "aten._to_copy"};
  return reducing.contains(name) ? Manner::kReduces : Manner::kInsists;
}

// True if the op names strides of its first operand's memory.
bool NamesStrides(const Op& op) {
  const absl::string_view name = op.def->name();
  return name == "aten.as_strided" || name == "mica.scatter_view";
}

Dims ChannelsLastStrides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  int64_t step = dims[1];
  for (int i = static_cast<int>(dims.size()) - 1; i >= 2; --i) {
    strides[i] = step;
    step *= dims[i];
  }
  strides[0] = step;
  return strides;
}

// Strides that order dense elements of `dims` as `like` orders its own.
Dims StridesLike(const TensorType& like, const Dims& dims) {
  const Dims given = like.EffectiveStrides();
  std::vector<int> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return given[a] > given[b]; });
  Dims strides(dims.size(), 1);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= dims[order[i]];
  }
  return strides;
}

class LayoutPass {
 public:
  LayoutPass(const Program& program, const OpRegistry& ops)
      : program_(program), uses_(CountUses(program)), rewriter_(program, ops) {}

  absl::StatusOr<Program> Run();
  // Whether all could be kept right, and the copies back are worth it: a
  // convolution brings its result into any layout at less than a copy's cost.
  bool is_worthwhile() const {
    return is_possible_ && num_copies_ < num_leaders_;
  }

 private:
  absl::Status CopyOp(const Op& op);
  absl::Status CopyView(const Op& op);
  // An op that takes its operands in the recorded types alone.
  absl::Status CopyRecorded(const Op& op);
  // aten._reshape_alias as the aten.view that it is.
  absl::Status CopyReshape(const Op& op);
  absl::Status Add(const Op& op, std::vector<TensorType> types);
  absl::Status AddAlike(const Op& op, std::vector<TensorType> types);
  // The strides that result 0 takes from an operand that has moved.
  std::optional<TensorType> Followed(const Op& op) const;
  // The value with the recorded strides.
  absl::StatusOr<ValueId> Recorded(ValueId id);
  // `from`, of the new Program, as `type` says.
  absl::StatusOr<ValueId> Copy(ValueId from, TensorType type,
                               const SourceLine& source = {});
  // Calls `add` while those of op's operands of which `is_moved` is true stand
  // for what `copy_of` makes of them.
  template <typename IsMoved, typename CopyOf, typename AddFn>
  absl::Status WithCopies(const Op& op, const IsMoved& is_moved,
                          const CopyOf& copy_of, const AddFn& add);
  // The same for values with recorded strides.
  template <typename AddFn>
  absl::Status WithRecorded(const Op& op, const AddFn& add);

  const TensorType& NewType(ValueId id) const {
    return rewriter_.builder().type(rewriter_.NewId(id));
  }
  bool HasMoved(ValueId id) const {
    return !(NewType(id) == program_.type(id));
  }

  const Program& program_;
  std::vector<int> uses_;
  Rewriter rewriter_;
  absl::flat_hash_map<ValueId, ValueId> copies_;
  int num_copies_ = 0;
  int num_leaders_ = 0;
  bool is_possible_ = true;
};

absl::StatusOr<ValueId> LayoutPass::Copy(ValueId from, TensorType type,
                                         const SourceLine& source) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* clone, builder.FindOp("aten.clone"));
  MICA_ASSIGN_OR_RETURN(auto results,
                        builder.AddOp({.def = clone,
                                       .arguments = {ValueRef{from}},
                                       .types = {std::move(type)},
                                       .source = source}));
  return results[0];
}

absl::StatusOr<ValueId> LayoutPass::Recorded(ValueId id) {
  if (!HasMoved(id)) return rewriter_.NewId(id);
  auto [copy, is_new] = copies_.emplace(id, kNoValue);
  if (!is_new) return copy->second;
  TensorType type = program_.type(id);
  if (!type.is_dense()) type.strides.clear();
  MICA_ASSIGN_OR_RETURN(const ValueId made,
                        Copy(rewriter_.NewId(id), std::move(type)));
  copies_[id] = made;
  return made;
}

// Adds the op with the operands as they lie now.
absl::Status LayoutPass::Add(const Op& op, std::vector<TensorType> types) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(op.def->name()));
  ProgramBuilder::OpSpec spec{.def = def,
                              .arguments = op.arguments,
                              .types = std::move(types),
                              .source = op.source};
  RenameValues(spec.arguments, [&](ValueId id) { return rewriter_.NewId(id); });
  for (ValueId id : op.results) {
    spec.names.push_back(program_.value(id).name);
  }
  MICA_ASSIGN_OR_RETURN(auto results, builder.AddOp(std::move(spec)));
  for (size_t i = 0; i < op.results.size(); ++i) {
    rewriter_.Map(op.results[i], results[i]);
  }
  return absl::OkStatus();
}

// The same with all operands of the result's form lying as it does: loops over
// 16 bits take no other ones.
absl::Status LayoutPass::AddAlike(const Op& op, std::vector<TensorType> types) {
  const TensorType wanted = types[0];
  const auto lies_otherwise = [&](ValueId id) {
    const TensorType& type = NewType(id);
    return type.dims == wanted.dims && type.is_dense() && wanted.is_dense() &&
           type.EffectiveStrides() != wanted.EffectiveStrides();
  };
  const auto alike = [&](ValueId id) {
    ++num_copies_;
    TensorType type = NewType(id);
    type.strides = wanted.strides;
    return Copy(rewriter_.NewId(id), std::move(type));
  };
  return WithCopies(op, lies_otherwise, alike,
                    [&] { return Add(op, std::move(types)); });
}

absl::Status LayoutPass::CopyView(const Op& op) {
  const ValueId base = std::get<ValueRef>(op.arguments[0]).id;
  if (!HasMoved(base)) return rewriter_.CopyOp(op);
  // Complex values stay where they are: nothing copies them back.
  if (IsComplex(program_.type(op.results[0]).dtype)) {
    return WithRecorded(op, [&] { return rewriter_.CopyOp(op); });
  }
  if (op.def->name() == "aten._reshape_alias") return CopyReshape(op);
  Arguments arguments = op.arguments;
  RenameValues(arguments, [&](ValueId id) { return rewriter_.NewId(id); });
  const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
    return rewriter_.builder().type(id);
  };
  const auto types = InferTypes(OpCall(*op.def, arguments, type_of));
  if (types.ok() && SameShape((*types)[0], program_.type(op.results[0]))) {
    return Add(op, {(*types)[0]});
  }
  return WithRecorded(op, [&] { return rewriter_.CopyOp(op); });
}

absl::Status LayoutPass::CopyRecorded(const Op& op) {
  ForEachValue(op.arguments, [&](ValueId id) {
    // A copy back would be row-major.
    is_possible_ =
        is_possible_ && (!HasMoved(id) || program_.type(id).is_dense());
  });
  if (!is_possible_) return absl::OkStatus();
  return WithRecorded(op, [&] { return rewriter_.CopyOp(op); });
}

absl::Status LayoutPass::CopyReshape(const Op& op) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* view, builder.FindOp("aten.view"));
  const ValueId base = rewriter_.NewId(std::get<ValueRef>(op.arguments[0]).id);
  TensorType type = builder.type(base);
  type.strides.clear();
  ++num_copies_;
  MICA_ASSIGN_OR_RETURN(const ValueId copy,
                        Copy(base, std::move(type), op.source));
  MICA_ASSIGN_OR_RETURN(
      auto results,
      builder.AddOp({.def = view,
                     .arguments = {ValueRef{copy}, op.arguments[1]},
                     .source = op.source}));
  rewriter_.Map(op.results[0], results[0]);
  return absl::OkStatus();
}

template <typename IsMoved, typename CopyOf, typename AddFn>
absl::Status LayoutPass::WithCopies(const Op& op, const IsMoved& is_moved,
                                    const CopyOf& copy_of, const AddFn& add) {
  std::vector<std::pair<ValueId, ValueId>> moved;
  ForEachValue(op.arguments, [&](ValueId id) {
    if (is_moved(id)) moved.emplace_back(id, rewriter_.NewId(id));
  });
  for (const auto& [id, where] : moved) {
    if (!is_moved(id)) continue;  // An operand that occurs twice.
    MICA_ASSIGN_OR_RETURN(const ValueId copy, copy_of(id));
    rewriter_.Map(id, copy);
  }
  MICA_RETURN_IF_ERROR(add());
  for (const auto& [id, where] : moved) rewriter_.Map(id, where);
  return absl::OkStatus();
}

template <typename AddFn>
absl::Status LayoutPass::WithRecorded(const Op& op, const AddFn& add) {
  const auto recorded = [this](ValueId id) {
    num_copies_ += !copies_.contains(id);
    return Recorded(id);
  };
  return WithCopies(
      op, [this](ValueId id) { return HasMoved(id); }, recorded, add);
}

std::optional<TensorType> LayoutPass::Followed(const Op& op) const {
  TensorType type = program_.type(op.results[0]);
  std::optional<TensorType> found;
  ForEachValue(op.arguments, [&](ValueId id) {
    if (found.has_value() || !HasMoved(id)) return;
    const TensorType& moved = NewType(id);
    if (moved.rank() != type.rank() || !moved.is_dense()) return;
    // A broadcast operand says nothing.
    if (op.def->is_elementwise() && moved.dims != type.dims) return;
    found = type;
    found->strides = StridesLike(moved, type.dims);
  });
  return found;
}

absl::Status LayoutPass::CopyOp(const Op& op) {
  if (NamesStrides(op)) {
    const ValueId base = std::get<ValueRef>(op.arguments[0]).id;
    // A copy back would leave out what lies between the elements.
    is_possible_ =
        is_possible_ && (!HasMoved(base) || program_.type(base).is_dense());
    return WithRecorded(op, [&] { return rewriter_.CopyOp(op); });
  }
  if (op.def->is_view()) return CopyView(op);
  if (!op.bodies.empty()) return CopyRecorded(op);
  std::vector<TensorType> types;
  for (ValueId id : op.results) types.push_back(program_.type(id));
  switch (op.results.empty() ? Manner::kInsists
                             : MannerOf(program_, op, uses_)) {
    case Manner::kLeads:
      types[0].strides = ChannelsLastStrides(types[0].dims);
      ++num_leaders_;
      return Add(op, std::move(types));
    case Manner::kFollows:
      if (const auto followed = Followed(op)) types[0] = *followed;
      if (IsHalf(types[0].dtype)) return AddAlike(op, std::move(types));
      return Add(op, std::move(types));
    case Manner::kReduces:
      return Add(op, std::move(types));
    case Manner::kInsists:
      break;
  }
  bool insists = false;
  ForEachValue(op.arguments, [&](ValueId id) {
    insists = insists || (HasMoved(id) && !NewType(id).is_row_major());
  });
  if (!insists) return Add(op, std::move(types));
  return WithRecorded(op, [&] { return rewriter_.CopyOp(op); });
}

absl::StatusOr<Program> LayoutPass::Run() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (const Op& op : program_.ops()) {
    MICA_RETURN_IF_ERROR(CopyOp(op));
    if (!is_possible_) return program_;
  }
  std::vector<ValueId> leaving(program_.outputs().begin(),
                               program_.outputs().end());
  for (const Update& update : program_.updates()) {
    leaving.push_back(update.value);
  }
  for (ValueId id : leaving) {
    num_copies_ += HasMoved(id) && !copies_.contains(id);
    MICA_ASSIGN_OR_RETURN(ValueId value, Recorded(id));
    rewriter_.Map(id, value);
  }
  return rewriter_.Finish();
}

}  // namespace

absl::StatusOr<Program> ChooseLayouts(Program program, const OpRegistry& ops) {
  const bool has_convolution =
      std::any_of(program.ops().begin(), program.ops().end(), IsConvolution);
  if (!has_convolution) return program;
  LayoutPass pass(program, ops);
  MICA_ASSIGN_OR_RETURN(Program moved, pass.Run());
  if (!pass.is_worthwhile()) return program;
  return RemoveDeadOps(std::move(moved), ops);
}

}  // namespace mica
