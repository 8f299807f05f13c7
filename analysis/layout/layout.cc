#include "analysis/layout/layout.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "analysis/cost/op_work.h"
#include "analysis/layout/manner.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_editor.h"
#include "framework/op/op_def.h"

namespace mica {
namespace {

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

// What a choice costs and brings.
struct Tally {
  int copies = 0, leaders = 0;
  bool is_possible = true;  // All could be kept right.

  // Whether the copies back are worth it: a convolution brings its result into
  // any layout at less than a copy's cost.
  bool is_worthwhile() const { return is_possible && copies < leaders; }
};

// What bodies of a Program become: each once, so that functions stay shared.
class BodyLayouts {
 public:
  explicit BodyLayouts(const OpRegistry& ops) : ops_(ops) {}

  struct Chosen {
    std::shared_ptr<const Program> body;
    Tally tally;
  };

  // A body that gets and gives what was recorded.
  absl::StatusOr<Chosen> Recorded(const std::shared_ptr<const Program>& body);
  // A function whose inputs have these types, of which `num_moved` aren't
  // recorded, and whose results lie as they come.
  absl::StatusOr<Chosen> Moved(const std::shared_ptr<const Program>& function,
                               const std::vector<TensorType>& types,
                               int num_moved);

 private:
  using Key =
      std::pair<std::shared_ptr<const Program>, std::vector<TensorType>>;

  const OpRegistry& ops_;
  absl::flat_hash_map<std::shared_ptr<const Program>, Chosen> recorded_;
  absl::flat_hash_map<Key, Chosen> moved_;
};

class LayoutPass {
 public:
  LayoutPass(const Program& program, const OpRegistry& ops, BodyLayouts& bodies)
      : program_(program),
        uses_(CountUses(program)),
        rewriter_(program, ops),
        bodies_(bodies) {}

  // What leaves the Program lies as recorded.
  absl::StatusOr<Program> Run();
  // The inputs have these types, and results leave as they lie.
  absl::StatusOr<Program> RunFunction(std::vector<TensorType> input_types);
  const Tally& tally() const { return tally_; }

 private:
  absl::Status CopyOps();
  absl::Status CopyOp(const Op& op);
  absl::Status CopyCall(const Op& op);
  absl::Status CopyView(const Op& op);
  // A branch, a loop or a call that gets and gives what was recorded.
  absl::Status CopyRecorded(const Op& op);
  // aten._reshape_alias as the aten.view that it is.
  absl::Status CopyReshape(const Op& op);
  absl::Status Add(const Op& op, std::vector<TensorType> types,
                   Bodies bodies = {});
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
  BodyLayouts& bodies_;
  absl::flat_hash_map<ValueId, ValueId> copies_;
  Tally tally_;
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
absl::Status LayoutPass::Add(const Op& op, std::vector<TensorType> types,
                             Bodies bodies) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(op.def->name()));
  ProgramBuilder::OpSpec spec{.def = def,
                              .arguments = op.arguments,
                              .types = std::move(types),
                              .source = op.source,
                              .bodies = std::move(bodies)};
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
    ++tally_.copies;
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
    tally_.is_possible =
        tally_.is_possible && (!HasMoved(id) || program_.type(id).is_dense());
  });
  if (!tally_.is_possible) return absl::OkStatus();
  Bodies bodies;
  for (const auto& body : op.bodies) {
    MICA_ASSIGN_OR_RETURN(BodyLayouts::Chosen chosen, bodies_.Recorded(body));
    tally_.copies += chosen.tally.copies;
    tally_.leaders += chosen.tally.leaders;
    bodies.push_back(std::move(chosen.body));
  }
  return WithRecorded(op,
                      [&] { return rewriter_.CopyOp(op, std::move(bodies)); });
}

absl::Status LayoutPass::CopyCall(const Op& op) {
  std::vector<TensorType> types;
  int num_moved = 0;
  for (ValueId id : BodyOperands(op)) {
    types.push_back(NewType(id));
    num_moved += HasMoved(id);
  }
  MICA_ASSIGN_OR_RETURN(BodyLayouts::Chosen chosen,
                        bodies_.Moved(op.bodies[0], types, num_moved));
  if (chosen.body == nullptr) return CopyRecorded(op);
  tally_.copies += chosen.tally.copies;
  tally_.leaders += chosen.tally.leaders;
  return Add(op, /*types=*/{}, {std::move(chosen.body)});
}

absl::Status LayoutPass::CopyReshape(const Op& op) {
  ProgramBuilder& builder = rewriter_.builder();
  MICA_ASSIGN_OR_RETURN(const OpDef* view, builder.FindOp("aten.view"));
  const ValueId base = rewriter_.NewId(std::get<ValueRef>(op.arguments[0]).id);
  TensorType type = builder.type(base);
  type.strides.clear();
  ++tally_.copies;
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
    tally_.copies += !copies_.contains(id);
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
    tally_.is_possible = tally_.is_possible &&
                         (!HasMoved(base) || program_.type(base).is_dense());
    return WithRecorded(op, [&] { return rewriter_.CopyOp(op); });
  }
  if (op.def->is_view()) return CopyView(op);
  if (ControlKindOf(*op.def) == ControlKind::kCall) return CopyCall(op);
  if (!op.bodies.empty()) return CopyRecorded(op);
  std::vector<TensorType> types;
  for (ValueId id : op.results) types.push_back(program_.type(id));
  switch (op.results.empty() ? Manner::kInsists
                             : MannerOf(program_, op, uses_)) {
    case Manner::kLeads:
      types[0].strides = ChannelsLastStrides(types[0].dims);
      ++tally_.leaders;
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

absl::Status LayoutPass::CopyOps() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (const Op& op : program_.ops()) {
    MICA_RETURN_IF_ERROR(CopyOp(op));
    if (!tally_.is_possible) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> LayoutPass::Run() {
  MICA_RETURN_IF_ERROR(CopyOps());
  if (!tally_.is_possible) return program_;
  std::vector<ValueId> leaving;
  for (ValueId id : program_.outputs()) {
    if (id != kNoValue) leaving.push_back(id);
  }
  for (const Update& update : program_.updates()) {
    leaving.push_back(update.value);
  }
  for (ValueId id : leaving) {
    tally_.copies += HasMoved(id) && !copies_.contains(id);
    MICA_ASSIGN_OR_RETURN(ValueId value, Recorded(id));
    rewriter_.Map(id, value);
  }
  return rewriter_.Finish();
}

absl::StatusOr<Program> LayoutPass::RunFunction(
    std::vector<TensorType> input_types) {
  rewriter_.set_input_types(std::move(input_types));
  MICA_RETURN_IF_ERROR(CopyOps());
  if (!tally_.is_possible) return program_;
  return rewriter_.Finish();
}

absl::StatusOr<BodyLayouts::Chosen> BodyLayouts::Recorded(
    const std::shared_ptr<const Program>& body) {
  if (const auto it = recorded_.find(body); it != recorded_.end()) {
    return it->second;
  }
  LayoutPass pass(*body, ops_, *this);
  MICA_ASSIGN_OR_RETURN(Program moved, pass.Run());
  Chosen chosen = {.body = body};
  if (pass.tally().is_worthwhile()) {
    MICA_ASSIGN_OR_RETURN(moved, RemoveDeadOps(std::move(moved), ops_));
    chosen = {.body = std::make_shared<const Program>(std::move(moved)),
              .tally = pass.tally()};
  }
  recorded_.emplace(body, chosen);
  return chosen;
}

absl::StatusOr<BodyLayouts::Chosen> BodyLayouts::Moved(
    const std::shared_ptr<const Program>& function,
    const std::vector<TensorType>& types, int num_moved) {
  const Key key(function, types);
  if (const auto it = moved_.find(key); it != moved_.end()) return it->second;
  LayoutPass pass(*function, ops_, *this);
  MICA_ASSIGN_OR_RETURN(Program moved, pass.RunFunction(types));
  const Tally& tally = pass.tally();
  Chosen chosen;
  // Else it is led back to before the call, which costs no more.
  if (tally.is_worthwhile() ||
      (tally.is_possible && tally.copies <= num_moved)) {
    MICA_ASSIGN_OR_RETURN(moved, RemoveDeadOps(std::move(moved), ops_));
    chosen = {.body = std::make_shared<const Program>(std::move(moved)),
              .tally = tally};
  }
  moved_.emplace(key, chosen);
  return chosen;
}

bool HasConvolution(const Program& program) {
  bool has = false;
  ForEachOp(program, [&](const Op& op) { has = has || IsConvolution(op); });
  return has;
}

}  // namespace

absl::StatusOr<Program> ChooseLayouts(Program program, const OpRegistry& ops) {
  if (!HasConvolution(program)) return program;
  BodyLayouts bodies(ops);
  LayoutPass pass(program, ops, bodies);
  MICA_ASSIGN_OR_RETURN(Program moved, pass.Run());
  if (pass.tally().is_worthwhile()) {
    return RemoveDeadOps(std::move(moved), ops);
  }
  if (program.depth() == 0) return program;
  // Each body by itself.
  ProgramEditor editor(std::move(program));
  for (OpId id = 0; id < editor.num_ops(); ++id) {
    Bodies chosen;
    for (const auto& body : editor.program().ops()[id].bodies) {
      MICA_ASSIGN_OR_RETURN(auto recorded, bodies.Recorded(body));
      chosen.push_back(std::move(recorded.body));
    }
    if (!chosen.empty()) editor.SetBodies(id, std::move(chosen));
  }
  return editor.Freeze();
}

}  // namespace mica
