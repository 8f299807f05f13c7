#include "python/torch_side/opaque/opaque.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/stack.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/torch_side/opaque/aten_operands.h"
#include "python/torch_side/opaque/aten_operators.h"
#include "python/torch_side/opaque/operands_form.h"
#include "python/torch_side/opaque/random_draws.h"
#include "python/torch_side/opaque/result_places.h"
#include "python/torch_side/tensors/engine_tensors.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

struct AtenState {
  explicit AtenState(const c10::OperatorHandle& handle) : op(handle) {}

  c10::OperatorHandle op;
  std::string name;
  AtenOperands operands;
  std::vector<TensorType> results;
  std::vector<int> hidden_results;
  bool has_dynamic_sizes = false;
  bool is_random = false;
  // A result was absent. oneDNN's LSTM gives one less where gradients are off,
  // and computes otherwise; nobody else asks whether they are.
  bool lacks_result = false;
  // Which allocations its results are in: told by the first call. Null for an
  // operator that isn't torch's own, which may keep a result.
  std::unique_ptr<AllocationOrder> allocations;
  // Called where the result shares the first operand's bytes.
  std::optional<c10::OperatorHandle> inplace_op;
};

using AtenTensors = absl::InlinedVector<at::Tensor, 3>;

void AppendTensors(c10::IValue value, AtenTensors& tensors) {
  if (value.isTensor()) {
    tensors.push_back(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      tensors.push_back(tensor);
    }
  }
}

// A Status has it that is about a result of another size.
constexpr absl::string_view kSizeOfDataUrl = "mica.size_of_data";

// What the result is instead of what the Plan says; ok if it is that.
absl::Status CheckResult(const AtenState& state, size_t i,
                         const at::Tensor& tensor, bool is_read) {
  const TensorType& type = state.results[i];
  const bool has_sizes =
      tensor.defined() &&
      tensor.sizes() == c10::IntArrayRef(type.dims.data(), type.dims.size());
  // Not only operators that say so of themselves have sizes of the data's.
  if (!has_sizes &&
      (state.has_dynamic_sizes || (is_read && tensor.defined()))) {
    // The program may have looked at the size, so whoever reads the data.
    absl::Status another = absl::AbortedError("the size that data gives");
    another.SetPayload(kSizeOfDataUrl, absl::Cord());
    return another;
  }
  if (!is_read) return absl::OkStatus();
  if (!has_sizes || tensor.scalar_type() != ToScalarType(type.dtype)) {
    return absl::InternalError(absl::StrCat(
        state.name, ": wants ", type.ToString(), ", got ",
        tensor.defined() ? c10::str(tensor.sizes(), " ", tensor.scalar_type())
                         : "none"));
  }
  return absl::OkStatus();
}

// A result that lies in another's place is moved out of the way of that.
void LeavePlacesOfOthers(AtenTensors& tensors, void* const* results) {
  if (tensors.size() < 2) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].numel() == 0) continue;
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (k == i || results[k] == nullptr) continue;
      if (!tensors[i].has_storage() ||
          tensors[i].storage().data() != results[k]) {
        continue;
      }
      tensors[i] = at::clone(tensors[i]);
      break;
    }
  }
}

bool CopyResults(const AtenState& state, AtenTensors& tensors,
                 void* const* results, LaunchContext& context) {
  if (tensors.size() != state.results.size()) {
    return context.Fail(absl::InternalError(
        absl::StrCat(state.name, ": wants ", state.results.size(),
                     " results, got ", tensors.size())));
  }
  LeavePlacesOfOthers(tensors, results);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorType& type = state.results[i];
    if (!tensors[i].defined() && type == AbsentResultType()) continue;
    // What has no elements has no place, whoever reads its sizes.
    const bool is_read = results[i] != nullptr || type.num_elements() == 0;
    const absl::Status status = CheckResult(state, i, tensors[i], is_read);
    if (!status.ok()) return context.Fail(status);
    if (results[i] == nullptr || LiesAt(tensors[i], results[i], type)) continue;
    BorrowedTensor(results[i], type).copy_(tensors[i]);
  }
  return true;
}

// Drops what an operator warns of: Python's filters, by which a warning is
// shown once or not at all, were asked when the program ran first.
class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

// The results where they belong, and what the call made besides. `given` has
// the memory of the stack for the next call, which is empty at the end.
AtenTensors CallAten(const AtenState& state, AtenOperands::Given& given,
                     bool is_inplace, absl::Status& status) {
  torch::jit::Stack& stack = given.stack;
  stack.assign(given.arguments.begin(), given.arguments.end());
  if (state.is_random) {
    status = DrawInTurn(state.name, [&] { state.op.callBoxed(&stack); });
    if (!status.ok()) return {};
  } else {
    (is_inplace ? *state.inplace_op : state.op).callBoxed(&stack);
  }
  AtenTensors tensors;
  for (c10::IValue& value : stack) AppendTensors(std::move(value), tensors);
  stack.clear();
  for (int param : state.hidden_results) {
    AppendTensors(given.arguments[param], tensors);
  }
  return tensors;
}

bool RunAten(const AtenState& state, void* const* args,
             LaunchContext& context) {
  void* const* results = args + state.operands.types.size();
  const bool is_inplace = state.inplace_op.has_value() && results[0] == args[0];
  std::optional<ResultPlaces> places;
  if (state.allocations != nullptr && !is_inplace) {
    places.emplace(*state.allocations, state.results, results);
  }
  std::unique_ptr<AtenOperands::Given> given = state.operands.Give(args);
  {
    absl::Status status;
    AtenTensors tensors = CallAten(state, *given, is_inplace, status);
    if (places.has_value()) places->Finish(tensors);
    if (!status.ok()) return context.Fail(status);
    if (!CopyResults(state, tensors, results, context)) return false;
  }
  // A copy that was written lies in a result's place.
  state.operands.TakeBack(std::move(given));
  if (places.has_value() && places->AreKept()) {
    return context.Fail(absl::InternalError(
        absl::StrCat(state.name, ": ATen keeps the memory of its result")));
  }
  return true;
}

bool LaunchAten(const void* prepared, void* const* args,
                LaunchContext& context) {
  const auto& state = *static_cast<const AtenState*>(prepared);
  // Below autograd, like the call that was recorded.
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(
      c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));
  std::optional<c10::AutoGradMode> no_grad;
  if (state.lacks_result) no_grad.emplace(false);
  static NoWarnings& no_warnings = *new NoWarnings;
  const c10::WarningUtils::WarningHandlerGuard silent(&no_warnings);
  try {
    return RunAten(state, args, context);
  } catch (const std::exception& error) {
    return context.Fail(absl::InternalError(
        absl::StrCat(state.name, ": ATen failed: ", error.what())));
  }
}

// Gives the operands what the operator's name says of them. Returns what is
// wrong with that.
std::string PutForm(absl::string_view name, AtenState& state) {
  const OperandsForm form = ConsumeForm(&name);
  std::vector<TensorType*> tensors;
  size_t next = 0;
  for (const AtenParam& param : state.operands.params) {
    for (int i = 0; i < param.num_values; ++i, ++next) {
      if (!param.is_scalar) tensors.push_back(&state.operands.types[next]);
    }
  }
  const auto is_off = [&](size_t count) {
    return count != 0 && count != tensors.size();
  };
  if (is_off(form.lazy.size()) || is_off(form.strides.size())) {
    return absl::StrCat("its name says lazy bits of ", form.lazy.size(),
                        " tensors and strides of ", form.strides.size(),
                        ", it has ", tensors.size());
  }
  state.operands.lazy = form.lazy;
  for (size_t i = 0; i < form.strides.size(); ++i) {
    if (!form.strides[i].has_value()) continue;
    TensorType told = *tensors[i];
    told.strides = *form.strides[i];
    if (told.strides.size() != told.dims.size() || !(told == *tensors[i])) {
      return absl::StrCat("its name says strides that ", tensors[i]->ToString(),
                          " can't have");
    }
    *tensors[i] = std::move(told);
  }
  return "";
}

// The form that writes to the first operand, if the result lies as that does.
std::optional<c10::OperatorHandle> InPlaceFormOf(const AtenState& state) {
  if (state.is_random || !state.operands.lazy.empty() ||
      state.results.size() != 1 || state.operands.types.empty() ||
      state.operands.params.empty()) {
    return std::nullopt;
  }
  const AtenParam& self = state.operands.params[0];
  const TensorType& type = state.operands.types[0];
  const TensorType& result = state.results[0];
  const bool lies_alike = type.dtype == result.dtype &&
                          type.dims == result.dims && type.is_dense() &&
                          type.EffectiveStrides() == result.EffectiveStrides();
  if (self.num_values != 1 || self.is_list || self.is_scalar ||
      self.is_mutated || type.is_scalar || !lies_alike) {
    return std::nullopt;
  }
  return FindInPlaceForm(state.op);
}

}  // namespace

bool IsSizeOfData(const absl::Status& failure) {
  return failure.GetPayload(kSizeOfDataUrl).has_value();
}

bool DrawsRandomNumbers(const OpDef& def) {
  if (!def.is_opaque()) return false;
  const auto op = FindAten(def.name());
  return op.has_value() && op->hasTag(at::Tag::nondeterministic_seeded);
}

Verdict PrepareAten(const KernelRequest& request) {
  const std::string& name = request.def->name();
  const std::optional<c10::OperatorHandle> op = FindAten(name);
  if (!op.has_value()) return No{"torch has no such operator"};
  if (!request.def->is_opaque()) {
    const std::string why = WhyNotAtens(*request.def, op->schema());
    if (!why.empty()) return No{why};
  }
  const std::vector<Param>& params = request.def->schema().params;
  const std::vector<c10::Argument>& aten = op->schema().arguments();
  if (params.size() != aten.size()) {
    return No{absl::StrCat("torch's schema is another: ",
                           c10::toString(op->schema()))};
  }
  auto state = std::make_shared<AtenState>(*op);
  state->name = name;
  try {
    for (size_t i = 0; i < params.size(); ++i) {
      state->operands.params.push_back(
          MakeAtenParam(params[i], aten[i], (*request.arguments)[i]));
    }
  } catch (const std::exception& error) {
    return No{error.what()};
  }
  for (const Operand& operand : request.operands) {
    state->operands.types.push_back(operand.type);
  }
  for (const Operand& result : request.results) {
    state->results.push_back(result.type);
    if (result.type == AbsentResultType()) state->lacks_result = true;
  }
  if (const std::string wrong = PutForm(name, *state); !wrong.empty()) {
    return No{wrong};
  }
  state->hidden_results = request.def->hidden_results();
  state->is_random = DrawsRandomNumbers(*request.def);
  state->operands.overwrites = OnlyDraws(*op);
  if (absl::StartsWith(op->operator_name().name, "aten::")) {
    ResultPlaces::Install();
    state->allocations =
        std::make_unique<AllocationOrder>(state->results.size());
    state->inplace_op = InPlaceFormOf(*state);
    if (state->hidden_results.empty()) state->operands.KeepSpare();
  }
  state->has_dynamic_sizes = op->hasTag(at::Tag::dynamic_output_shape);
  const uint32_t inplace = state->inplace_op.has_value() ? 1 : 0;
  return Prepared{.launch = LaunchAten,
                  .state = std::move(state),
                  .inplace_operands = inplace};
}

Verdict PrepareOpaque(const KernelRequest& request) {
  if (!request.def->is_opaque()) return No{"it is the oracle's to run"};
  return PrepareAten(request);
}

}  // namespace mica
