#include "analysis/lower/lower.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/fixed_values.h"
#include "analysis/lower/lowering.h"
#include "analysis/lower/raising_ops.h"
#include "analysis/passes/dead_ops.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// Where a Status keeps the place that it is about.
constexpr absl::string_view kPlaceUrl = "mica.place";

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

}  // namespace

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
  if (!memory_.MovesOf(id).empty()) {
    MICA_ASSIGN_OR_RETURN(const Argument offset, memory_.MovedOffset(id));
    result.moved = static_cast<int32_t>(outputs.size());
    outputs.push_back(std::get<ValueRef>(offset).id);
  }
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

// What Python computed it computed whether or not the result is used.
absl::Status Lowering::LowerRaisingNumbers() {
  for (size_t i = 0; i < tape_.host_values.size(); ++i) {
    const TapeHostValue& number = tape_.host_values[i];
    if (number.kind != TapeHostValue::Kind::kOp || number.is_constant ||
        !MayRaise(number.op)) {
      continue;
    }
    MICA_RETURN_IF_ERROR(LowerHostValue(static_cast<int32_t>(i)).status());
  }
  return absl::OkStatus();
}

absl::Status Lowering::KeepRaising(Program* program,
                                   std::vector<ValueId>* outputs,
                                   LoweredTape* lowered) const {
  std::vector<ValueId> tensors;
  for (const ValueId id : UnusedThatMayRaise(*program)) {
    if (!program->type(id).is_scalar) {
      tensors.push_back(id);
      continue;
    }
    lowered->host_results.push_back(static_cast<int32_t>(outputs->size()));
    outputs->push_back(id);
  }
  if (tensors.empty()) return absl::OkStatus();
  MICA_ASSIGN_OR_RETURN(*program,
                        WithKept(*program, *outputs, tensors, registry_));
  outputs->assign(program->outputs().begin(), program->outputs().end());
  return absl::OkStatus();
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
  MICA_RETURN_IF_ERROR(LowerRaisingNumbers());
  MICA_ASSIGN_OR_RETURN(Program program, builder_.Build(outputs));
  MICA_RETURN_IF_ERROR(KeepRaising(&program, &outputs, &lowered));
  DropProvenReads(program, &outputs, &lowered);
  MICA_ASSIGN_OR_RETURN(lowered.program,
                        WithOutputs(program, outputs, registry_));
  lowered.large_constants = std::move(large_constants_);
  return lowered;
}

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
