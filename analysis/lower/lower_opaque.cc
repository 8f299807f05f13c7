// Calls that ATen runs.

#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/lower/complex_calls.h"
#include "analysis/lower/lowering.h"
#include "analysis/lower/unit_strides.h"
#include "framework/base/status.h"

namespace mica {

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
  // What goes by a name that we know is ours: an operator's, or that of a rule
  // by which a region computes it. A call that writes and one that doesn't are
  // two operators, whatever ATen calls them; so are those that take lazy bits,
  // or strides that types don't tell.
  MICA_ASSIGN_OR_RETURN(const std::string form, OperandsForm(call));
  if (writes_unsaid || !form.empty() || options_.keep_calls ||
      registry_.Find(schema.op) != nullptr) {
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

}  // namespace mica
