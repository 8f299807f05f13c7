// A tape on its way to a Program: what the parts of LowerTape() share.

#ifndef MICA_ANALYSIS_LOWER_LOWERING_H_
#define MICA_ANALYSIS_LOWER_LOWERING_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/lower/functional.h"
#include "analysis/lower/lower.h"
#include "analysis/lower/tape.h"
#include "analysis/lower/tape_memory.h"
#include "analysis/passes/rewrite.h"
#include "framework/ir/program_builder.h"
#include "framework/op/op_registry.h"

namespace mica {

// The call as messages name it, with the user's line.
inline std::string Where(const TapeCall& call) {
  return call.op + LineOf(call);
}

// A legal value name made of an access path: "args[0].x" gives "args_0_x".
std::string ValueName(absl::string_view path);

// Tensors among a call's outputs, lists flattened; kNoTapeTensor for a result
// that is absent (a gradient that nobody asked for).
std::vector<TapeTensorId> OutputTensors(const TapeCall& call);

// One use.
class Lowering {
 public:
  Lowering(const Tape& tape, const OpRegistry& registry,
           const LowerOptions& options)
      : tape_(tape),
        registry_(registry),
        options_(options),
        builder_(registry, tape.name),
        memory_(tape, builder_) {
    memory_.set_numbers([this](int32_t id) { return LowerHostValue(id); });
    if (options_.keep_calls) memory_.KeepGaps();
  }

  absl::StatusOr<LoweredTape> Run();

 private:
  absl::Status DeclareExternals();
  std::string UniqueName(absl::string_view path) const;

  absl::Status LowerAnyCall(const TapeCall& call);
  absl::Status LowerItemByItem(const TapeCall& call);
  absl::Status LowerCall(const TapeCall& call);
  absl::Status LowerNative(const TapeCall& call);
  absl::Status LowerView(const TapeCall& call);
  // Notes by which numbers its results' places go; true if they do.
  bool NoteMoves(const TapeCall& call);
  absl::Status LowerCompute(const TapeCall& call, const OpDef& def);
  absl::Status DropUnasked(const OpDef& def, ProgramBuilder::OpSpec& spec,
                           std::vector<TapeTensorId>& outputs);
  absl::Status LowerWrite(const TapeCall& call, const FunctionalForm& form);
  absl::Status LowerReturned(const TapeCall& call, const OpDef& def);
  absl::Status LowerOpaque(const TapeCall& call);
  absl::StatusOr<std::string> OperandsForm(const TapeCall& call);
  absl::Status LowerForAten(const TapeCall& call);
  absl::Status LowerSelectBackward(const TapeCall& call);
  absl::Status LowerEqual(const TapeCall& call);
  absl::StatusOr<ValueId> AsStored(TapeTensorId id, ValueId value);

  // The value that the tensor's elements have now.
  absl::StatusOr<ValueId> Current(TapeTensorId id);
  absl::StatusOr<Argument> LowerArgument(const TapeValue& value);
  absl::StatusOr<Arguments> LowerArguments(const TapeCall& call);
  absl::StatusOr<ValueId> AddTapeConstant(TapeTensorId id);
  // The bytes that the tape has of a constant, as one of `type`.
  absl::StatusOr<ValueId> AddBytes(TapeTensorId id, TensorType type);
  // A tensor of Python's numbers; kNoValue if they are constants after all.
  absl::StatusOr<ValueId> AddNumbers(const TapeTensor& tensor,
                                     const TensorType& type);
  // What left the dispatcher as output `output` of call `call`.
  absl::StatusOr<ValueId> NumberRead(int32_t call, int32_t output) const;
  // A float64 scalar, or a constant number.
  absl::StatusOr<Argument> LowerHostValue(int32_t id);
  // Lowers those whose making may raise.
  absl::Status LowerRaisingNumbers();
  // What may raise and nothing reads stays: numbers as outputs, which are host
  // results, ops by mica.keep.
  absl::Status KeepRaising(Program* program, std::vector<ValueId>* outputs,
                           LoweredTape* lowered) const;
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

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_LOWERING_H_
