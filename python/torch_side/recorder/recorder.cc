#include "python/torch_side/recorder/recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "analysis/lower/lower.h"
#include "python/torch_side/recorder/composites.h"
#include "python/torch_side/recorder/higher_order_ops.h"
#include "python/torch_side/recorder/op_facts.h"
#include "python/torch_side/recorder/recorder_impl.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

thread_local Recorder* current_recorder = nullptr;

std::string TapeOpName(const c10::OperatorName& name) {
  std::string text = name.name;
  const size_t colons = text.find("::");
  if (colons != std::string::npos) text.replace(colons, 2, ".");
  if (!name.overload_name.empty()) {
    absl::StrAppend(&text, ".", name.overload_name);
  }
  return text;
}

template <typename F>
void ForEachTensor(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) {
        visit(item.toTensor());
      }
    }
  }
}

bool IsHostValue(const c10::IValue& value) {
  return value.isBool() || value.isInt() || value.isDouble() ||
         value.isComplexDouble() || value.isString() || value.isIntList() ||
         value.isDoubleList() || value.isBoolList();
}

}  // namespace

void Recorder::Impl::RecordCall(const c10::OperatorHandle& op,
                                const std::vector<c10::IValue>& args,
                                const torch::jit::Stack& stack,
                                Recorder* owner) {
  const c10::FunctionSchema& schema = op.schema();
  TapeCall call;
  call.op = TapeOpName(op.operator_name());
  const OpFacts facts = FindOpFacts(call.op);
  if (facts.is_metadata_only) return;
  const UserLine line = CurrentUserLine();
  call.file = line.file;
  call.line = line.line;
  call.place = AddPlace();
  const auto refuse = [&](std::string why, std::string mend = "") {
    owner->Refuse({.reason = absl::StrCat(call.op, ": ", why),
                   .mend = std::move(mend),
                   .at = line});
  };
  if (facts.refuse != nullptr) return refuse(facts.refuse);
  // Tensor.t_() and its like change metadata only: what comes of it is an
  // alias over the storage, which IdOf() finds at the next use.
  if (op.hasTag(at::Tag::inplace_view)) return;
  // Generators are their numbers, from here on.
  call.schema =
      absl::StrReplaceAll(c10::toString(schema), {{"Generator", "int"}});
  call.is_nondeterministic_seeded = op.hasTag(at::Tag::nondeterministic_seeded);
  call.has_dynamic_output_shape = op.hasTag(at::Tag::dynamic_output_shape);

  bool foreign = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const c10::AliasInfo* alias = argument.alias_info();
    const bool writes = alias != nullptr && alias->isWrite();
    ForEachTensor(args[i], [&](const at::Tensor& tensor) {
      if (const auto why =
              UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
        refuse(absl::StrCat("takes a tensor that is ", *why));
      }
    });
    if (owner->refusal()) return;
    call.arg_names.push_back(argument.name());
    call.args.push_back(
        ValueOf(args[i], argument.real_type(), call.op, &foreign));
    if (foreign) {
      return refuse(
          absl::StrCat("argument ", argument.name(), " is a ",
                       args[i].tagKind()),
          argument.name() == "generator" ? "use the default generator" : "");
    }
    if (writes) call.mutated_args.push_back(static_cast<int32_t>(i));
  }
  for (const int hidden : facts.hidden_writes) {
    // Instance norm gives none as a tensor that isn't defined.
    if (hidden < static_cast<int>(args.size()) && args[hidden].isTensor() &&
        args[hidden].toTensor().defined() &&
        (facts.writes_if < 0 || args[facts.writes_if].toBool())) {
      call.mutated_args.push_back(hidden);
      call.concealed_args.push_back(hidden);
    }
  }

  const auto call_index = static_cast<int32_t>(tape.calls.size());
  const size_t num_outputs = schema.returns().size();
  for (size_t i = 0; i < num_outputs; ++i) {
    const c10::IValue& output = stack[stack.size() - num_outputs + i];
    const auto index = static_cast<int32_t>(i);
    // Tensors that the call made get their origin first; those that it passed
    // through (in place, or unchanged) are known.
    int32_t item = -1;
    const bool is_list = output.isList();
    ForEachTensor(output, [&](const at::Tensor& tensor) {
      if (is_list) ++item;
      if (owner->refusal()) return;
      if (const auto why =
              UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
        return refuse(absl::StrCat("makes a tensor that is ", *why));
      }
      const auto known = ids.find(tensor.unsafeGetTensorImpl());
      if (known != ids.end()) {
        // Its metadata may have changed in place; IdOf() below sees to it.
        return;
      }
      Storage* storage = FindStorage(tensor);
      const bool shares = storage != nullptr;
      const TapeTensorId id = Append(tensor);
      TapeTensor& record = tape.tensors[id];
      record.origin = TapeOrigin::kCall;
      record.call = call_index;
      record.output = index;
      record.item = item;
      if (!shares && facts.is_uninitialized) {
        Storage& made = StorageOf(tensor);
        made.raw = true;
        made.of_python = callbacks.is_making_tensor();
        made.of_program = callbacks.is_allocating();
      }
    });
    if (owner->refusal()) return;
    call.outputs.push_back(
        ValueOf(output, schema.returns()[i].real_type(), call.op, &foreign));
    if (foreign) {
      return refuse(absl::StrCat("yields a ", output.tagKind()));
    }
    if (IsHostValue(output)) tape.host_reads.push_back({call_index, index});
  }

  // Aliases as they are, whatever the schema says.
  for (size_t i = 0; i < num_outputs; ++i) {
    const auto* made = std::get_if<TapeTensorRef>(&call.outputs[i]);
    TapeTensorId first = made != nullptr ? made->id : kNoTapeTensor;
    if (const auto* list = std::get_if<TapeTensorList>(&call.outputs[i])) {
      if (!list->ids.empty()) first = list->ids[0];
    }
    if (first == kNoTapeTensor) continue;
    for (size_t j = 0; j < call.args.size(); ++j) {
      const auto* arg = std::get_if<TapeTensorRef>(&call.args[j]);
      if (arg == nullptr ||
          tape.tensors[arg->id].storage != tape.tensors[first].storage) {
        continue;
      }
      const bool writes =
          std::find(call.mutated_args.begin(), call.mutated_args.end(),
                    static_cast<int32_t>(j)) != call.mutated_args.end();
      call.aliases.push_back(
          {static_cast<int32_t>(i), static_cast<int32_t>(j), writes});
      break;
    }
  }
  const ModuleScopes::Place place = scopes.Here();
  call.is_backward = place.is_backward;
  call.later_part = later_part;
  modules.push_back(place.module);
  tape.calls.push_back(std::move(call));
}

// The handler has to see arguments before the call changes them; the parts
// that need the results come after it.
struct RecorderAccess {
  static void Handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
    constexpr auto kBelow =
        c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorderKey);
    Recorder* recorder = current_recorder;
    if (recorder == nullptr || recorder->refusal()) {
      c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
      op.redispatchBoxed(keys & kBelow, stack);
      return;
    }
    if (IsComposite(op)) {
      // Whole only in inference mode: its parts come by here again.
      op.redispatchBoxed(keys & kBelow, stack);
      return;
    }
    c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
    const size_t num_args = op.schema().arguments().size();
    const std::vector<c10::IValue> args(stack->end() - num_args, stack->end());
    Before(op, args, recorder);
    try {
      op.redispatchBoxed(keys & kBelow, stack);
    } catch (...) {
      recorder->Refuse({.reason = absl::StrCat(TapeOpName(op.operator_name()),
                                               " raised an exception"),
                        .at = CurrentUserLine()});
      throw;
    }
    if (recorder->refusal()) return;
    recorder->impl_->RecordCall(op, args, *stack, recorder);
  }

  static bool IsComposite(const c10::OperatorHandle& op) {
    return op.hasKernelForDispatchKey(
               c10::DispatchKey::CompositeImplicitAutograd) &&
           !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
           !op.hasKernelForDispatchKey(
               c10::DispatchKey::CompositeExplicitAutograd);
  }

  static void Before(const c10::OperatorHandle& op,
                     const std::vector<c10::IValue>& args, Recorder* recorder) {
    Recorder::Impl& impl = *recorder->impl_;
    const c10::FunctionSchema& schema = op.schema();
    const std::string name = TapeOpName(op.operator_name());
    const OpFacts facts = FindOpFacts(name);
    if (facts.is_metadata_only) return;
    const bool is_noted = name == "aten.copy_" &&
                          impl.NoteCopy(args[0].toTensor(), args[1].toTensor());
    for (size_t i = 0; i < args.size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      const bool writes = alias != nullptr && alias->isWrite();
      const bool view = alias != nullptr && !writes;
      ForEachTensor(args[i], [&](const at::Tensor& tensor) {
        if (UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) return;
        const TapeTensorId id = impl.IdOf(tensor, name);  // As it is before.
        if (name == "aten.lift_fresh" && impl.seen[id].unresolved &&
            !impl.MakeConstant(id, tensor)) {
          recorder->Refuse({.reason = "makes a constant of more than 64 MiB",
                            .at = CurrentUserLine()});
        }
        if (is_noted) return;
        const auto* storage = impl.FindStorage(tensor);
        // What it leaves of memory that was never filled is as arbitrary.
        const bool is_arbitrary = storage != nullptr && storage->of_program;
        if (writes && (facts.overwrites || is_arbitrary)) {
          impl.NoteOverwrite(tensor);
        } else if (!view || name == "aten.lift_fresh") {
          impl.SettleRaw(tensor, recorder, name);
        }
      });
    }
  }
};

absl::flat_hash_set<std::string> AtenNames() {
  absl::flat_hash_set<std::string> names;
  for (const c10::OperatorName& op :
       c10::Dispatcher::singleton().getAllOpNames()) {
    absl::string_view name = op.name;
    if (absl::ConsumePrefix(&name, "aten::")) names.emplace(name);
  }
  return names;
}

absl::Status Recorder::Install() {
  static const absl::Status* status = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    if (dispatcher.hasBackendFallbackForDispatchKey(kRecorderKey)) {
      return new absl::Status(absl::UnimplementedError(
          "capture: this torch uses the recorder's dispatch key itself"));
    }
    try {
      static auto* registration =
          new c10::RegistrationHandleRAII(dispatcher.registerFallback(
              kRecorderKey,
              c10::KernelFunction::makeFromBoxedFunction<
                  &RecorderAccess::Handle>(),
              "mica"));
      (void)registration;
      if (absl::Status passed = LetHigherOrderOpsPass(); !passed.ok()) {
        return new absl::Status(std::move(passed));
      }
      InstallGeneratorOps();
      return new absl::Status(InstallComposites());
    } catch (const std::exception& error) {
      return new absl::Status(
          absl::UnimplementedError(absl::StrCat("capture: ", error.what())));
    }
  }();
  return *status;
}

Recorder::Recorder(std::string name, Callbacks callbacks)
    : impl_(std::make_unique<Impl>()) {
  impl_->callbacks = std::move(callbacks);
  impl_->tape.name = std::move(name);
}

Recorder::~Recorder() { Stop(); }

void Recorder::AddInput(PyObject* tensor, std::string path) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const TapeTensorId id = impl_->Append(value);
  TapeTensor& record = impl_->tape.tensors[id];
  record.origin = TapeOrigin::kInput;
  record.input = static_cast<int32_t>(impl_->tape.inputs.size());
  record.name = std::move(path);
  impl_->tape.inputs.push_back(id);
}

void Recorder::AddConstant(PyObject* tensor) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const c10::TensorImpl* impl = value.unsafeGetTensorImpl();
  if (impl_->ids.contains(impl) || UnsupportedTensorImpl(*impl) ||
      impl_->FindStorage(value) != nullptr) {
    return;
  }
  c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
  const TapeTensorId id = impl_->Append(value);
  impl_->tape.tensors[id].origin = TapeOrigin::kState;
  impl_->seen[id].unresolved = true;
  impl_->MakeConstant(id, value);
}

void Recorder::Start() {
  current_recorder = this;
  impl_->started = true;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, true);
  c10::impl::tls_set_dispatch_key_included(kPartsKey, true);
  kernels_.Start();
}

void Recorder::StartLater(int32_t part) {
  impl_->later_part = part;
  Start();
}

void Recorder::Stop() {
  if (!impl_->started) return;
  impl_->started = false;
  kernels_.Stop();
  c10::impl::tls_set_dispatch_key_included(kPartsKey, false);
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, false);
  current_recorder = nullptr;
}

void Recorder::Refuse(Refusal refusal) {
  if (refusal_) return;
  refusal_ = std::move(refusal);
  refusal_.places = {impl_->callbacks.places()};
}

FrameSites Recorder::PlaceOf(const absl::Status& failure) const {
  const std::optional<int32_t> place = PlaceOfFailure(failure);
  if (!place || *place < 0 ||
      *place >= static_cast<int32_t>(impl_->places.size())) {
    return {};
  }
  return impl_->places[*place];
}

Recorder::Mark Recorder::now() const {
  const Tape& tape = impl_->tape;
  return {tape.calls.size(), tape.tensors.size(), tape.host_reads.size()};
}

std::optional<Recorder::Number> Recorder::NumberRead(size_t index) const {
  const TapeHostRead& read = impl_->tape.host_reads[index];
  if (read.output != 0) return std::nullopt;
  const TapeValue& value = impl_->tape.calls[read.call].outputs[0];
  if (const auto* real = std::get_if<double>(&value)) {
    return Number{&PyFloat_Type, *real, read.call};
  }
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    return Number{&PyLong_Type, static_cast<double>(*whole), read.call};
  }
  return std::nullopt;
}

bool Recorder::PlaceNumbers(const Mark& mark,
                            absl::Span<const PassedNumbers> numbers,
                            bool is_tracked) {
  Tape& tape = impl_->tape;
  if (!numbers.empty() && numbers[0].is_stored) {
    return numbers.size() == 1 &&
           PlaceStored(numbers[0], mark.calls,
                       static_cast<TapeTensorId>(mark.tensors), tape);
  }
  // Besides the operator, only reads of tensors that stand for numbers.
  const size_t num_reads = tape.host_reads.size() - mark.host_reads;
  return tape.calls.size() == mark.calls + num_reads + 1 &&
         (num_reads == 0 || tape.host_reads.back().call + 1 ==
                                static_cast<int32_t>(tape.calls.size()) - 1) &&
         mica::PlaceNumbers(numbers, static_cast<TapeTensorId>(mark.tensors),
                            is_tracked, tape);
}

bool Recorder::GaveFloat32(const Mark& mark) const {
  const Tape& tape = impl_->tape;
  for (size_t i = mark.calls; i < tape.calls.size(); ++i) {
    for (const TapeValue& output : tape.calls[i].outputs) {
      const auto* ref = std::get_if<TapeTensorRef>(&output);
      if (ref != nullptr && ref->id != kNoTapeTensor &&
          tape.tensors[ref->id].dtype == "f32") {
        return true;
      }
    }
  }
  return false;
}

void Recorder::SetHostValues(
    std::vector<TapeHostValue> values, std::vector<int32_t> results,
    absl::Span<const HostValues::Comparison> comparisons) {
  Tape& tape = impl_->tape;
  for (const TapeHostValue& value : values) {
    if (value.kind != TapeHostValue::Kind::kRead || value.is_constant) continue;
    tape.host_reads.erase(
        std::remove_if(tape.host_reads.begin(), tape.host_reads.end(),
                       [&](const TapeHostRead& read) {
                         return read.call == value.call &&
                                read.output == value.output;
                       }),
        tape.host_reads.end());
  }
  tape.host_values = std::move(values);
  tape.host_results = std::move(results);
  for (const HostValues::Comparison& comparison : comparisons) {
    TapeCall call{.op = comparison.op,
                  .arg_names = {"a", "b"},
                  .outputs = {comparison.outcome ? 1.0 : 0.0},
                  .file = comparison.at.file,
                  .line = comparison.at.line};
    for (const TapeHostOperand& operand : {comparison.a, comparison.b}) {
      if (operand.id >= 0) {
        call.args.push_back(TapeHostRef{operand.id});
      } else {
        call.args.push_back(operand.constant);
      }
    }
    tape.host_reads.push_back(
        {.call = static_cast<int32_t>(tape.calls.size())});
    tape.calls.push_back(std::move(call));
  }
}

int64_t Recorder::num_calls() const {
  return static_cast<int64_t>(impl_->tape.calls.size());
}

}  // namespace mica
