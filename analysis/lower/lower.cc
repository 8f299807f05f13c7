#include "analysis/lower/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/complex_calls.h"
#include "analysis/lower/constant_argument.h"
#include "analysis/lower/discrete_results.h"
#include "analysis/lower/fixed_values.h"
#include "analysis/lower/foreach.h"
#include "analysis/lower/functional.h"
#include "analysis/lower/raising_numbers.h"
#include "analysis/lower/tape_memory.h"
#include "analysis/lower/unit_strides.h"
#include "analysis/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/program_builder.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// Where a Status keeps the place that it is about.
constexpr absl::string_view kPlaceUrl = "mica.place";

// Tensors among a call's outputs, lists flattened; kNoTapeTensor for a result
// that is absent (a gradient that nobody asked for).
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

std::string Where(const TapeCall& call) {
  return call.line == 0
             ? call.op
             : absl::StrCat(call.op, " (", call.file, ":", call.line, ")");
}

// A legal value name made of an access path: "args[0].x" gives "args_0_x".
std::string ValueName(absl::string_view path) {
  std::string name;
  for (char c : path) {
    if (absl::ascii_isalnum(c)) {
      name.push_back(c);
    } else if (!name.empty() && name.back() != '_') {
      name.push_back('_');
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty() || absl::ascii_isdigit(name[0])) name.insert(0, "v");
  return name;
}

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

class Lowering {
 public:
  Lowering(const Tape& tape, const OpRegistry& registry,
           const LowerOptions& options)
      : tape_(tape),
        registry_(registry),
        options_(options),
        builder_(registry, tape.name),
        memory_(tape, builder_) {}

  absl::StatusOr<LoweredTape> Run();

 private:
  absl::Status DeclareExternals();
  std::string UniqueName(absl::string_view path) const;

  absl::Status LowerAnyCall(const TapeCall& call);
  absl::Status LowerItemByItem(const TapeCall& call);
  absl::Status LowerCall(const TapeCall& call);
  absl::Status LowerNative(const TapeCall& call);
  absl::Status LowerView(const TapeCall& call);
  absl::Status LowerCompute(const TapeCall& call, const OpDef& def);
  absl::Status DropUnasked(const OpDef& def, ProgramBuilder::OpSpec& spec,
                           std::vector<TapeTensorId>& outputs);
  absl::Status LowerWrite(const TapeCall& call, const FunctionalForm& form);
  absl::Status LowerReturned(const TapeCall& call, const OpDef& def);
  absl::Status LowerOpaque(const TapeCall& call);
  absl::StatusOr<std::string> OperandsForm(const TapeCall& call);
  absl::Status LowerForAten(const TapeCall& call);
  absl::Status LowerEqual(const TapeCall& call);
  absl::StatusOr<ValueId> AsStored(TapeTensorId id, ValueId value);

  // The value that the tensor's elements have now.
  absl::StatusOr<ValueId> Current(TapeTensorId id);
  absl::StatusOr<Argument> LowerArgument(const TapeValue& value);
  absl::StatusOr<Arguments> LowerArguments(const TapeCall& call);
  absl::StatusOr<ValueId> AddTapeConstant(TapeTensorId id);
  // The bytes that the tape has of a constant, as one of `type`.
  absl::StatusOr<ValueId> AddBytes(TapeTensorId id, TensorType type);
  // What left the dispatcher as output `output` of call `call`.
  absl::StatusOr<ValueId> NumberRead(int32_t call, int32_t output) const;
  // A float64 scalar, or a constant number.
  absl::StatusOr<Argument> LowerHostValue(int32_t id);
  // Lowers those whose making may raise; true if there are any.
  absl::StatusOr<bool> LowerRaisingNumbers();
  absl::StatusOr<ValueId> AddOneResult(absl::string_view op,
                                       Arguments arguments, TensorType type) {
    return mica::AddOneResult(builder_, op, std::move(arguments),
                              std::move(type), memory_.source());
  }

  absl::StatusOr<LoweredTape> Finish();
  absl::StatusOr<LoweredResult> LowerResult(TapeTensorId id,
                                            std::vector<ValueId>& outputs);

  // Ops from here on are of `call`; of none, if null.
  void SetCall(const TapeCall* call) {
    SourceLine source;
    if (call != nullptr) {
      source.is_backward = call->is_backward;
      if (call->line != 0) {
        source.file = builder_.InternName(call->file);
        source.line = call->line;
      }
      if (!call->scope.empty()) source.scope = builder_.InternName(call->scope);
    }
    memory_.set_source(std::move(source));
  }

  const Tape& tape_;
  const OpRegistry& registry_;
  const LowerOptions options_;
  ProgramBuilder builder_;
  TapeMemory memory_;
  std::map<const TapeCall*, ValueId> host_values_;
  std::map<int32_t, ValueId> scalars_;  // By entry of Tape::host_values.
  std::map<int32_t, int32_t> output_of_storage_;
  std::vector<TapeTensorId> large_constants_;
};

absl::StatusOr<ValueId> Lowering::AddTapeConstant(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  MICA_ASSIGN_OR_RETURN(TensorType type, memory_.TypeOf(id));
  if (tensor.host_value >= 0) {
    MICA_ASSIGN_OR_RETURN(Argument number, LowerHostValue(tensor.host_value));
    if (const auto* ref = std::get_if<ValueRef>(&number)) {
      if (tensor.is_wrapped_number) return ref->id;
      return AddOneResult("aten.full", {tensor.sizes, *ref, type.dtype}, type);
    }
  }
  type.is_scalar = tensor.is_wrapped_number;
  if (type.is_row_major() || type.num_elements() == 0) {
    type.strides.clear();
    return AddBytes(id, type);
  }
  // The tape has them as they lie in memory; the tensor is a window on that.
  const int64_t extent = type.extent_bytes() / ElementBytes(type.dtype);
  MICA_ASSIGN_OR_RETURN(
      ValueId memory,
      AddBytes(id, TensorType{.dtype = type.dtype, .dims = {extent}}));
  return AddOneResult(
      "aten.as_strided",
      {ValueRef{memory}, tensor.sizes, tensor.strides, int64_t{0}}, type);
}

absl::StatusOr<ValueId> Lowering::AddBytes(TapeTensorId id, TensorType type) {
  const TapeTensor& tensor = tape_.tensors[id];
  if (type.num_bytes() <= kMaxInlineConstantBytes) {
    return builder_.AddConstant(
        "", type,
        std::vector<uint8_t>(tensor.bytes->begin(), tensor.bytes->end()));
  }
  const std::string name = absl::StrCat("constant.", large_constants_.size());
  large_constants_.push_back(id);
  return builder_.AddVariable(ValueName(name), name, type);
}

absl::StatusOr<ValueId> Lowering::NumberRead(int32_t call,
                                             int32_t output) const {
  const auto it = host_values_.find(&tape_.calls[call]);
  if (it != host_values_.end() && output == 0) return it->second;
  return absl::UnimplementedError(absl::StrCat(
      Where(tape_.calls[call]), ": a number that Python reads from a tensor"));
}

absl::StatusOr<Argument> Lowering::LowerHostValue(int32_t id) {
  const TapeHostValue& number = tape_.host_values[id];
  if (number.is_constant) return Argument(number.value);
  if (const auto it = scalars_.find(id); it != scalars_.end()) {
    return Argument(ValueRef{it->second});
  }
  ValueId value = kNoValue;
  if (number.kind == TapeHostValue::Kind::kRead) {
    MICA_ASSIGN_OR_RETURN(value, NumberRead(number.call, number.output));
    if (builder_.type(value).dtype == DType::kI64) {
      MICA_ASSIGN_OR_RETURN(value,
                            AddOneResult("mica.int_add", {ValueRef{value}, 0.0},
                                         ScalarType(DType::kF64)));
    }
  } else {
    Arguments operands;
    for (const TapeHostOperand& operand : number.operands) {
      operands.push_back(operand.constant);
      if (operand.id < 0) continue;
      MICA_ASSIGN_OR_RETURN(operands.back(), LowerHostValue(operand.id));
    }
    MICA_ASSIGN_OR_RETURN(value, AddOneResult(number.op, std::move(operands),
                                              ScalarType(DType::kF64)));
  }
  scalars_[id] = value;
  return Argument(ValueRef{value});
}

absl::StatusOr<Argument> Lowering::LowerArgument(const TapeValue& value) {
  if (const auto* ref = std::get_if<TapeHostRef>(&value)) {
    return LowerHostValue(ref->id);
  }
  if (const auto* ref = std::get_if<TapeTensorRef>(&value)) {
    if (ref->id == kNoTapeTensor) return Argument();
    MICA_ASSIGN_OR_RETURN(ValueId id, Current(ref->id));
    return Argument(ValueRef{id});
  }
  if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    ValueRefs refs;
    for (TapeTensorId id : list->ids) {
      refs.push_back(ValueRef{kNoValue});
      if (id == kNoTapeTensor) continue;
      MICA_ASSIGN_OR_RETURN(refs.back().id, Current(id));
    }
    return Argument(std::move(refs));
  }
  return ConstantArgument(value);
}

absl::StatusOr<Arguments> Lowering::LowerArguments(const TapeCall& call) {
  Arguments arguments;
  for (const TapeValue& value : call.args) {
    MICA_ASSIGN_OR_RETURN(Argument argument, LowerArgument(value));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

absl::StatusOr<LoweredTape> Lowering::Run() {
  MICA_RETURN_IF_ERROR(DeclareExternals());
  {
    const TraceSpan span("pass", "calls to ops");
    for (const TapeCall& call : tape_.calls) {
      SetCall(&call);
      const absl::Status status = LowerAnyCall(call);
      if (!status.ok()) {
        return WithPlace(Annotate(status, Where(call)), call.place);
      }
    }
  }
  SetCall(nullptr);
  const TraceSpan span("pass", "results and updates");
  return Finish();
}

absl::Status Lowering::DeclareExternals() {
  for (TapeTensorId id : tape_.inputs) {
    MICA_ASSIGN_OR_RETURN(TensorType type, memory_.TypeOf(id));
    MICA_ASSIGN_OR_RETURN(
        ValueId value,
        builder_.AddInput(UniqueName(tape_.tensors[id].name), type));
    memory_.DeclareExternal(id, value);
  }
  for (size_t i = 0; i < tape_.host_values.size(); ++i) {
    const TapeHostValue& number = tape_.host_values[i];
    if (number.kind != TapeHostValue::Kind::kInput || number.is_constant) {
      continue;
    }
    MICA_ASSIGN_OR_RETURN(
        scalars_[static_cast<int32_t>(i)],
        builder_.AddInput(UniqueName(number.name), ScalarType(DType::kF64)));
  }
  for (TapeTensorId id : tape_.states) {
    MICA_ASSIGN_OR_RETURN(TensorType type, memory_.TypeOf(id));
    const std::string& path = tape_.tensors[id].name;
    MICA_ASSIGN_OR_RETURN(ValueId value,
                          builder_.AddVariable(UniqueName(path), path, type));
    memory_.DeclareExternal(id, value);
  }
  return absl::OkStatus();
}

std::string Lowering::UniqueName(absl::string_view path) const {
  std::string name = ValueName(path);
  while (builder_.FindValue(name) != kNoValue) name.push_back('_');
  return name;
}

absl::StatusOr<ValueId> Lowering::Current(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  if (!memory_.IsKnown(id)) {
    if (tensor.origin == TapeOrigin::kAlias) {
      MICA_RETURN_IF_ERROR(Current(tensor.base).status());
    }
    if (tensor.origin == TapeOrigin::kConstant) {
      MICA_ASSIGN_OR_RETURN(ValueId value, AddTapeConstant(id));
      MICA_RETURN_IF_ERROR(memory_.SetFresh(id, value));
    }
  }
  return memory_.Current(id);
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

absl::Status Lowering::LowerView(const TapeCall& call) {
  const auto* base = std::get_if<TapeTensorRef>(&call.args[0]);
  if (base != nullptr && base->id != kNoTapeTensor) {
    MICA_RETURN_IF_ERROR(Current(base->id).status());
  }
  const OpDef* def = registry_.Find(call.op);
  const std::vector<TapeTensorId> outputs = OutputTensors(call);
  for (TapeTensorId id : outputs) {
    // The schema says "view", but eager had to copy.
    if (id == kNoTapeTensor || memory_.IsKnown(id)) continue;
    const bool is_ours =
        def != nullptr && !def->is_view() && !IsForAten(tape_, call);
    return is_ours ? LowerCompute(call, *def) : LowerOpaque(call);
  }
  if (def == nullptr || !def->is_view() || outputs.size() != 1 ||
      outputs[0] == base->id || CountsFromStorage(call) ||
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

// What an opaque operator's name says of the tensors that the call takes.
absl::StatusOr<std::string> Lowering::OperandsForm(const TapeCall& call) {
  const std::string lazy = LazyPrefix(tape_, call);
  if (!options_.keep_calls) return lazy;
  std::map<TapeTensorId, TensorType> types;
  absl::Status status;
  for (const TapeValue& value : call.args) {
    ForEachTensor(value, [&](TapeTensorId id) {
      const absl::StatusOr<ValueId> current = Current(id);
      status.Update(current.status());
      if (current.ok()) types[id] = builder_.type(*current);
    });
  }
  MICA_RETURN_IF_ERROR(status);
  return absl::StrCat(lazy, StridesPrefix(tape_, call, [&](TapeTensorId id) {
                        return types.at(id);
                      }));
}

absl::Status Lowering::LowerOpaque(const TapeCall& call) {
  if (CountsFromStorage(call)) {
    return absl::UnimplementedError("an offset from the start of a storage");
  }
  MICA_ASSIGN_OR_RETURN(Schema schema, ParseSchema(call.schema));
  bool writes_unsaid = false;
  for (int param : call.mutated_args) {
    if (schema.params[param].is_mutated) continue;
    writes_unsaid = true;
    // ATen conceals this write; the Program says it.
    schema.params[param].is_mutated = true;
    schema.params[param].alias_set = absl::StrCat("hidden", param);
  }
  // What goes by a name that we know is ours. A call that writes and one that
  // doesn't are two operators, whatever ATen calls them; so are those that take
  // lazy bits, or strides that types don't tell.
  MICA_ASSIGN_OR_RETURN(const std::string form, OperandsForm(call));
  if (writes_unsaid || !form.empty() || registry_.Find(schema.op) != nullptr) {
    schema.op = absl::StrCat("torch.", writes_unsaid ? "writing." : "", form,
                             schema.op);
  }
  const std::string name = schema.op;
  MICA_RETURN_IF_ERROR(builder_.DeclareOpaque(std::move(schema)));
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder_.FindOp(name));
  // One for each result.
  std::vector<TapeTensorId> written = OutputTensors(call);
  if (written.empty() && !call.outputs.empty()) {
    return absl::UnimplementedError("a result that is not a tensor");
  }
  for (int param : def->hidden_results()) {
    if (const auto* ref = std::get_if<TapeTensorRef>(&call.args[param])) {
      written.push_back(ref->id);
    } else if (const auto* list =
                   std::get_if<TapeTensorList>(&call.args[param])) {
      written.insert(written.end(), list->ids.begin(), list->ids.end());
    }
  }
  MICA_ASSIGN_OR_RETURN(Arguments arguments, LowerArguments(call));
  ProgramBuilder::OpSpec spec{.def = def,
                              .arguments = std::move(arguments),
                              .source = memory_.source()};
  for (TapeTensorId id : written) {
    spec.types.push_back(AbsentResultType());
    if (id == kNoTapeTensor) continue;
    const bool is_known = memory_.IsKnown(id);
    MICA_ASSIGN_OR_RETURN(spec.types.back(), is_known ? memory_.WriteType(id)
                                                      : memory_.TypeOf(id));
  }
  MICA_ASSIGN_OR_RETURN(auto results, builder_.AddOp(std::move(spec)));
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] == kNoTapeTensor) continue;
    MICA_ASSIGN_OR_RETURN(const ValueId value,
                          AsStored(written[i], results[i]));
    const bool is_known = memory_.IsKnown(written[i]);
    MICA_RETURN_IF_ERROR(is_known ? memory_.Write(written[i], value)
                                  : memory_.SetFresh(written[i], value));
  }
  return absl::OkStatus();
}

// An opaque operator gives a tensor's elements as they are read, lazy bits
// applied; values are what memory holds.
absl::StatusOr<ValueId> Lowering::AsStored(TapeTensorId id, ValueId value) {
  const auto apply = [&](absl::string_view schema) -> absl::Status {
    MICA_ASSIGN_OR_RETURN(Schema parsed, ParseSchema(schema));
    const std::string name = parsed.op;
    MICA_RETURN_IF_ERROR(builder_.DeclareOpaque(std::move(parsed)));
    MICA_ASSIGN_OR_RETURN(
        value, AddOneResult(name, {ValueRef{value}}, builder_.type(value)));
    return absl::OkStatus();
  };
  if (tape_.tensors[id].is_conj) {
    MICA_RETURN_IF_ERROR(apply("aten::_conj_physical(Tensor self) -> Tensor"));
  }
  if (tape_.tensors[id].is_neg) {
    MICA_RETURN_IF_ERROR(apply("torch.aten::neg(Tensor self) -> Tensor"));
  }
  return value;
}

absl::StatusOr<LoweredResult> Lowering::LowerResult(
    TapeTensorId id, std::vector<ValueId>& outputs) {
  const TapeTensor& tensor = tape_.tensors[id];
  MICA_RETURN_IF_ERROR(Current(id).status());
  MICA_RETURN_IF_ERROR(memory_.CheckInsideRoot(id));
  const TapeMemory::Storage& storage = memory_.storage(id);
  LoweredResult result{.sizes = tensor.sizes,
                       .strides = tensor.strides,
                       .offset = memory_.OffsetInRoot(id),
                       .is_conj = tensor.is_conj,
                       .is_neg = tensor.is_neg};
  MICA_ASSIGN_OR_RETURN(const TensorType type, memory_.TypeOf(id));
  result.dtype = type.dtype;
  if (memory_.IsExternal(storage.root)) {
    const bool is_input =
        tape_.tensors[storage.root].origin == TapeOrigin::kInput;
    const std::vector<TapeTensorId>& externals =
        is_input ? tape_.inputs : tape_.states;
    result.source = is_input ? LoweredResult::Source::kInput
                             : LoweredResult::Source::kState;
    result.index = static_cast<int32_t>(
        std::find(externals.begin(), externals.end(), storage.root) -
        externals.begin());
    return result;
  }
  MICA_ASSIGN_OR_RETURN(TensorType root_type, memory_.TypeOf(storage.root));
  if (!root_type.is_dense()) {
    return absl::UnimplementedError(
        absl::StrCat("a result in memory with gaps, ", root_type.ToString()));
  }
  const auto [it, is_new] = output_of_storage_.try_emplace(
      tensor.storage, static_cast<int32_t>(outputs.size()));
  if (is_new) outputs.push_back(storage.value);
  result.index = it->second;
  return result;
}

// A number that is the same at every run needs no check.
void DropProvenReads(const Program& program, std::vector<ValueId>* outputs,
                     LoweredTape* lowered) {
  const std::vector<bool> fixed = FixedValues(program);
  int32_t num_dropped = 0;
  for (int32_t& read : lowered->host_reads) {
    if (fixed[program.outputs()[read]]) {
      outputs->erase(outputs->begin() + (read - num_dropped));
      ++num_dropped;
      read = LoweredTape::kProven;
    } else {
      read -= num_dropped;
    }
  }
  for (int32_t& result : lowered->host_results) result -= num_dropped;
}

// What Python computed it computed whether or not the result is used.
absl::StatusOr<bool> Lowering::LowerRaisingNumbers() {
  bool may_raise = false;
  for (size_t i = 0; i < tape_.host_values.size(); ++i) {
    const TapeHostValue& number = tape_.host_values[i];
    if (number.kind != TapeHostValue::Kind::kOp || number.is_constant ||
        !MayRaise(number.op)) {
      continue;
    }
    may_raise = true;
    MICA_RETURN_IF_ERROR(LowerHostValue(static_cast<int32_t>(i)).status());
  }
  return may_raise;
}

absl::StatusOr<LoweredTape> Lowering::Finish() {
  LoweredTape lowered;
  std::vector<ValueId> outputs;
  for (TapeTensorId id : tape_.results) {
    MICA_ASSIGN_OR_RETURN(LoweredResult result, LowerResult(id, outputs));
    lowered.results.push_back(std::move(result));
  }
  for (const TapeHostRead& read : tape_.host_reads) {
    MICA_ASSIGN_OR_RETURN(ValueId number, NumberRead(read.call, read.output));
    lowered.host_reads.push_back(static_cast<int32_t>(outputs.size()));
    outputs.push_back(number);
  }
  for (const int32_t id : tape_.host_results) {
    MICA_ASSIGN_OR_RETURN(Argument number, LowerHostValue(id));
    lowered.host_results.push_back(static_cast<int32_t>(outputs.size()));
    if (!std::holds_alternative<ValueRef>(number)) {
      MICA_ASSIGN_OR_RETURN(ValueId same,
                            AddOneResult("mica.scalar_mul", {number, 1.0},
                                         ScalarType(DType::kF64)));
      number = ValueRef{same};
    }
    outputs.push_back(std::get<ValueRef>(number).id);
  }
  MICA_RETURN_IF_ERROR(memory_.AddUpdates());
  MICA_ASSIGN_OR_RETURN(const bool may_raise, LowerRaisingNumbers());
  MICA_ASSIGN_OR_RETURN(Program program, builder_.Build(outputs));
  if (may_raise) {
    for (const ValueId number : UnusedThatMayRaise(program)) {
      lowered.host_results.push_back(static_cast<int32_t>(outputs.size()));
      outputs.push_back(number);
    }
  }
  DropProvenReads(program, &outputs, &lowered);
  MICA_ASSIGN_OR_RETURN(lowered.program,
                        WithOutputs(program, outputs, registry_));
  lowered.large_constants = std::move(large_constants_);
  return lowered;
}

}  // namespace

absl::StatusOr<LoweredTape> LowerTape(const Tape& tape,
                                      const OpRegistry& registry,
                                      const LowerOptions& options) {
  TraceSpan span("analysis", "lower");
  span.Add("calls", static_cast<int64_t>(tape.calls.size()));
  return Lowering(tape, registry, options).Run();
}

absl::Status WithPlace(absl::Status failure, int32_t place) {
  failure.SetPayload(kPlaceUrl, absl::Cord(absl::StrCat(place)));
  return failure;
}

std::optional<int32_t> PlaceOfFailure(const absl::Status& failure) {
  const auto text = failure.GetPayload(kPlaceUrl);
  int32_t place = 0;
  if (!text || !absl::SimpleAtoi(std::string(*text), &place)) {
    return std::nullopt;
  }
  return place;
}

}  // namespace mica
