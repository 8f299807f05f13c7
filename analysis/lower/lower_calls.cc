// Calls that Mica has operators for.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/complex_calls.h"
#include "analysis/lower/discrete_results.h"
#include "analysis/lower/foreach.h"
#include "analysis/lower/functional.h"
#include "analysis/lower/lowering.h"
#include "analysis/lower/moved_gradients.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Equal but for the strides of dims that have one element or none.
bool HasSameLayout(const TensorType& a, const TensorType& b) {
  if (!SameShape(a, b)) return false;
  const Dims a_strides = a.EffectiveStrides();
  const Dims b_strides = b.EffectiveStrides();
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dims[i] > 1 && a_strides[i] != b_strides[i]) return false;
  }
  return true;
}

}  // namespace

std::vector<TapeTensorId> OutputTensors(const TapeCall& call) {
  std::vector<TapeTensorId> ids;
  for (const TapeValue& output : call.outputs) {
    if (std::holds_alternative<std::monostate>(output)) {
      ids.push_back(kNoTapeTensor);
    } else if (const auto* ref = std::get_if<TapeTensorRef>(&output)) {
      ids.push_back(ref->id);
    } else if (const auto* list = std::get_if<TapeTensorList>(&output)) {
      ids.insert(ids.end(), list->ids.begin(), list->ids.end());
    }
  }
  return ids;
}

// What each item's call writes the next one reads.
absl::Status Lowering::LowerItemByItem(const TapeCall& call) {
  const std::vector<TapeCall> parts = TakeItemByItem(call);
  if (parts.size() < 2) {
    return absl::UnimplementedError(absl::StrCat(
        Where(call), ": tensors that it writes share memory with others"));
  }
  for (const TapeCall& part : parts) {
    MICA_RETURN_IF_ERROR(LowerAnyCall(part));
  }
  return absl::OkStatus();
}

// A call over lists of tensors is many calls.
absl::Status Lowering::LowerAnyCall(const TapeCall& call) {
  if (call.op == "aten.equal") return LowerEqual(call);
  if (SelectsByNumber(call)) return LowerSelectBackward(call);
  if (WritesShared(tape_, call)) return LowerItemByItem(call);
  if (options_.keep_calls && !absl::StartsWith(call.op, "mica.") &&
      (call.aliases.empty() || !call.mutated_args.empty())) {
    const absl::Status status = LowerOpaque(call);
    if (!absl::IsUnimplemented(status)) return status;
  }
  if (IsForAten(tape_, call)) return LowerForAten(call);
  if (options_.keep_discrete_results && IsDiscreteInAten(tape_, call)) {
    const absl::Status status = LowerOpaque(call);
    if (!absl::IsUnimplemented(status)) return status;
  }
  const auto parts = ExpandForeach(call, registry_);
  if (!parts.has_value()) return LowerCall(call);
  for (const TapeCall& part : *parts) {
    MICA_RETURN_IF_ERROR(LowerCall(part));
  }
  return absl::OkStatus();
}

// Whether two tensors are equal, which Python reads as a bool.
absl::Status Lowering::LowerEqual(const TapeCall& call) {
  const auto* self = std::get_if<TapeTensorRef>(&call.args[0]);
  const auto* other = std::get_if<TapeTensorRef>(&call.args[1]);
  std::array<ValueId, 2> parts = {kNoValue, kNoValue};
  for (int i = 0; i < 2; ++i) {
    const TapeTensorId id = (i == 0 ? self : other)->id;
    const TapeTensor& tensor = tape_.tensors[id];
    if (tensor.is_conj || tensor.is_neg) {
      return absl::UnimplementedError("a lazily conjugated or negated tensor");
    }
    MICA_ASSIGN_OR_RETURN(parts[i], Current(id));
    if (!IsComplex(builder_.type(parts[i]).dtype)) continue;
    MICA_ASSIGN_OR_RETURN(
        parts[i], builder_.Add("aten.view_as_real", {ValueRef{parts[i]}},
                               memory_.source()));
  }
  ValueId& read = host_values_[&call];
  if (tape_.tensors[self->id].sizes != tape_.tensors[other->id].sizes) {
    MICA_ASSIGN_OR_RETURN(
        read, builder_.AddConstant("", {.dtype = DType::kBool}, {0}));
    return absl::OkStatus();
  }
  MICA_ASSIGN_OR_RETURN(
      const ValueId same,
      builder_.Add("aten.eq.Tensor", {ValueRef{parts[0]}, ValueRef{parts[1]}},
                   memory_.source()));
  MICA_ASSIGN_OR_RETURN(
      read, builder_.Add("aten.all", {ValueRef{same}}, memory_.source()));
  return absl::OkStatus();
}

// None of our operators computes with complex numbers or lazy bits.
absl::Status Lowering::LowerForAten(const TapeCall& call) {
  if (call.op == "aten._local_scalar_dense") {
    // The number is what its tensor holds.
    MICA_ASSIGN_OR_RETURN(host_values_[&call],
                          Current(std::get<TapeTensorRef>(call.args[0]).id));
    return absl::OkStatus();
  }
  const bool is_view = call.mutated_args.empty() && !call.aliases.empty();
  return is_view ? LowerView(call) : LowerOpaque(call);
}

absl::Status Lowering::LowerCall(const TapeCall& call) {
  const absl::Status status = LowerNative(call);
  if (!absl::IsUnimplemented(status) && !absl::IsInvalidArgument(status)) {
    return status;
  }
  // A form of the operator that ours doesn't have is left to ATen.
  return LowerOpaque(call).ok() ? absl::OkStatus() : status;
}

absl::Status Lowering::LowerNative(const TapeCall& call) {
  if (!call.mutated_args.empty()) {
    const OpDef* returning = FindReturningForm(call, registry_);
    if (returning != nullptr) return LowerReturned(call, *returning);
    const std::optional<FunctionalForm> form =
        FindFunctionalForm(call, registry_);
    return form.has_value() ? LowerWrite(call, *form) : LowerOpaque(call);
  }
  if (!call.aliases.empty()) return LowerView(call);
  const OpDef* def = registry_.Find(call.op);
  // A known name with other parameters is not the operator that we know. Where
  // data decides a size, ATen's result is held to the recorded one.
  if (def == nullptr || def->is_bounded() ||
      def->schema().params.size() != call.args.size()) {
    return LowerOpaque(call);
  }
  return LowerCompute(call, *def);
}

// A view of what moves does, too, and so does one from an index or a start on
// that is a number of the run's.
bool Lowering::NoteMoves(const TapeCall& call) {
  const auto* base = std::get_if<TapeTensorRef>(&call.args[0]);
  if (base == nullptr || base->id == kNoTapeTensor) return false;
  std::vector<TapeMemory::Move> moves = memory_.MovesOf(base->id);
  const auto* dim =
      call.args.size() > 2 ? std::get_if<int64_t>(&call.args[1]) : nullptr;
  const auto* number =
      dim == nullptr ? nullptr : std::get_if<TapeHostRef>(&call.args[2]);
  if (number != nullptr && !tape_.host_values[number->id].is_constant) {
    const TapeTensor& tensor = tape_.tensors[base->id];
    const auto rank = static_cast<int64_t>(tensor.sizes.size());
    const int64_t axis = *dim < 0 ? *dim + rank : *dim;
    const bool is_index = call.args.size() == 3;  // Or where a slice begins.
    moves.push_back({.number = number->id,
                     .stride = tensor.strides[axis],
                     .size = is_index ? tensor.sizes[axis] : 0});
  }
  if (moves.empty()) return false;
  for (TapeTensorId id : OutputTensors(call)) {
    if (id != kNoTapeTensor && id != base->id) memory_.SetMoves(id, moves);
  }
  return true;
}

absl::Status Lowering::LowerView(const TapeCall& call) {
  const auto* base = std::get_if<TapeTensorRef>(&call.args[0]);
  if (base != nullptr && base->id != kNoTapeTensor) {
    MICA_RETURN_IF_ERROR(Current(base->id).status());
  }
  const bool moves = NoteMoves(call);
  const OpDef* def = registry_.Find(call.op);
  const std::vector<TapeTensorId> outputs = OutputTensors(call);
  for (TapeTensorId id : outputs) {
    // The schema says "view", but eager had to copy.
    if (id == kNoTapeTensor || memory_.IsKnown(id)) continue;
    const bool is_ours =
        def != nullptr && !def->is_view() && !IsForAten(tape_, call);
    return is_ours ? LowerCompute(call, *def) : LowerOpaque(call);
  }
  const bool is_by_number = absl::c_any_of(call.args, [](const TapeValue& arg) {
    return std::holds_alternative<TapeHostRef>(arg);
  });
  if (moves || is_by_number || def == nullptr || !def->is_view() ||
      outputs.size() != 1 || outputs[0] == base->id ||
      CountsFromStorage(call) ||
      def->schema().params.size() != call.args.size()) {
    return absl::OkStatus();  // Current() makes it of its storage's root.
  }
  MICA_ASSIGN_OR_RETURN(TensorType type, memory_.TypeOf(outputs[0]));
  MICA_ASSIGN_OR_RETURN(Arguments arguments, LowerArguments(call));
  const auto results = builder_.AddOp({.def = def,
                                       .arguments = std::move(arguments),
                                       .source = memory_.source()});
  // The user's own operator reads better, but eager's window is what counts:
  // the two may differ in the stride of a dim of size 1.
  if (results.ok() && HasSameLayout(builder_.type((*results)[0]), type)) {
    memory_.SetView(outputs[0], (*results)[0]);
  }
  return absl::OkStatus();
}

// The result types of a call that says by a mask which results it wants: eager
// may have made others too, which are absent here.
absl::Status Lowering::DropUnasked(const OpDef& def,
                                   ProgramBuilder::OpSpec& spec,
                                   std::vector<TapeTensorId>& outputs) {
  const bool has_mask = std::any_of(
      spec.arguments.begin(), spec.arguments.end(), [](const Argument& arg) {
        return std::holds_alternative<std::vector<bool>>(arg);
      });
  if (!has_mask) return absl::OkStatus();
  const OpCall::TypeOf type_of = [this](ValueId id) -> const TensorType& {
    return builder_.type(id);
  };
  MICA_ASSIGN_OR_RETURN(TensorTypes inferred,
                        InferTypes(OpCall(def, spec.arguments, type_of)));
  for (size_t i = 0; i < std::min(inferred.size(), outputs.size()); ++i) {
    if (!(inferred[i] == AbsentResultType())) continue;
    spec.types[i] = AbsentResultType();
    outputs[i] = kNoTapeTensor;
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerCompute(const TapeCall& call, const OpDef& def) {
  std::vector<TapeTensorId> outputs = OutputTensors(call);
  const bool returns_tensors = outputs.size() == call.outputs.size();
  MICA_ASSIGN_OR_RETURN(Arguments arguments, LowerArguments(call));
  ProgramBuilder::OpSpec spec{.def = &def,
                              .arguments = std::move(arguments),
                              .source = memory_.source()};
  for (TapeTensorId id : outputs) {
    if (!returns_tensors) break;
    spec.types.push_back(AbsentResultType());
    if (id == kNoTapeTensor) continue;
    MICA_ASSIGN_OR_RETURN(spec.types.back(), memory_.TypeOf(id));
  }
  MICA_RETURN_IF_ERROR(DropUnasked(def, spec, outputs));
  MICA_ASSIGN_OR_RETURN(auto results, builder_.AddOp(std::move(spec)));
  if (!returns_tensors) {
    host_values_[&call] = results[0];
    return absl::OkStatus();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoTapeTensor) continue;
    MICA_RETURN_IF_ERROR(memory_.SetFresh(outputs[i], results[i]));
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerWrite(const TapeCall& call,
                                  const FunctionalForm& form) {
  const TapeTensorId target =
      std::get<TapeTensorRef>(call.args[form.mutated]).id;
  MICA_ASSIGN_OR_RETURN(Arguments all, LowerArguments(call));
  Arguments arguments;
  for (int param : form.params) arguments.push_back(std::move(all[param]));
  for (size_t i = arguments.size(); i < form.def->schema().params.size(); ++i) {
    arguments.push_back(form.def->schema().params[i].default_value);
  }
  MICA_ASSIGN_OR_RETURN(TensorType type, memory_.WriteType(target));
  const OpCall::TypeOf type_of = [this](ValueId id) -> const TensorType& {
    return builder_.type(id);
  };
  MICA_ASSIGN_OR_RETURN(TensorTypes inferred,
                        InferTypes(OpCall(*form.def, arguments, type_of)));
  if (inferred[0].dims != type.dims) {
    return absl::UnimplementedError(absl::StrCat(
        "a write of ", inferred[0].ToString(), " to ", type.ToString()));
  }
  if (inferred[0].dtype == type.dtype) {
    MICA_ASSIGN_OR_RETURN(
        ValueId value,
        AddOneResult(form.def->name(), std::move(arguments), type));
    return memory_.Write(target, value);
  }
  // The in-place form casts to the dtype of what it writes.
  MICA_ASSIGN_OR_RETURN(
      ValueId wide,
      AddOneResult(form.def->name(), std::move(arguments), inferred[0]));
  MICA_ASSIGN_OR_RETURN(
      ValueId value,
      AddOneResult("aten._to_copy", {ValueRef{wide}, type.dtype}, type));
  return memory_.Write(target, value);
}

absl::Status Lowering::LowerReturned(const TapeCall& call, const OpDef& def) {
  std::vector<TapeTensorId> fresh = OutputTensors(call);
  MICA_ASSIGN_OR_RETURN(Arguments arguments, LowerArguments(call));
  ProgramBuilder::OpSpec spec{.def = &def,
                              .arguments = std::move(arguments),
                              .source = memory_.source()};
  for (TapeTensorId id : fresh) {
    spec.types.push_back(AbsentResultType());
    if (id == kNoTapeTensor) continue;
    MICA_ASSIGN_OR_RETURN(spec.types.back(), memory_.TypeOf(id));
  }
  for (int32_t arg : call.mutated_args) {
    const TapeTensorId id = std::get<TapeTensorRef>(call.args[arg]).id;
    MICA_ASSIGN_OR_RETURN(TensorType type, memory_.WriteType(id));
    spec.types.push_back(std::move(type));
  }
  // What the call leaves out, such as a momentum that isn't kept.
  spec.types.resize(def.schema().results.size(), AbsentResultType());
  MICA_ASSIGN_OR_RETURN(auto results, builder_.AddOp(std::move(spec)));
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (fresh[i] == kNoTapeTensor) continue;
    MICA_RETURN_IF_ERROR(memory_.SetFresh(fresh[i], results[i]));
  }
  for (size_t i = 0; i < call.mutated_args.size(); ++i) {
    const int32_t arg = call.mutated_args[i];
    MICA_RETURN_IF_ERROR(memory_.Write(
        std::get<TapeTensorRef>(call.args[arg]).id, results[fresh.size() + i]));
  }
  return absl::OkStatus();
}

}  // namespace mica
