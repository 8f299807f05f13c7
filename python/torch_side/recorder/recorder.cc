#include "python/torch_side/recorder/recorder.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analysis/lower/lower.h"
#include "python/torch_side/recorder/composites.h"
#include "python/torch_side/recorder/higher_order_ops.h"
#include "python/torch_side/recorder/op_facts.h"
#include "python/torch_side/recorder/recorder_impl.h"
#include "python/torch_side/tensors/cpu_modes.h"
#include "python/torch_side/tensors/looks_only.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

thread_local Recorder* current_recorder = nullptr;

}  // namespace

// The handler has to see arguments before the call changes them; the parts
// that need the results come after it.
struct RecorderAccess {
  static void Handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
    constexpr auto kBelow =
        c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorderKey);
    LooksOnly::ThrowIfOn();
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
    const std::string name = absl::StrCat(op.operator_name().name, "/",
                                          op.operator_name().overload_name);
    if (IsOperatorInPython(name)) {
      // The program's own code, which the interpreter's stream follows.
      recorder->kernels_.Follow(name);
      op.redispatchBoxed(keys & kBelow, stack);
      return;
    }
    Record(op, keys & kBelow, recorder, stack);
    if (FillsMemory(op)) Fill(stack->back().toTensor());
  }

  static void Record(const c10::OperatorHandle& op, c10::DispatchKeySet below,
                     Recorder* recorder, torch::jit::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
    const size_t num_args = op.schema().arguments().size();
    const std::vector<c10::IValue> args(stack->end() - num_args, stack->end());
    Before(op, args, recorder);
    try {
      op.redispatchBoxed(below, stack);
    } catch (...) {
      recorder->Refuse({.reason = absl::StrCat(TapeOpName(op.operator_name()),
                                               " raised an exception"),
                        .at = CurrentUserLine()});
      throw;
    }
    if (recorder->refusal()) return;
    recorder->impl_->RecordCall(op, args, *stack, recorder);
  }

  // Whether the operator makes memory that deterministic algorithms fill, where
  // the recorder doesn't see it.
  static bool FillsMemory(const c10::OperatorHandle& op) {
    const at::Context& context = at::globalContext();
    if (!context.deterministicAlgorithms() ||
        !context.deterministicFillUninitializedMemory()) {
      return false;
    }
    const absl::string_view name = op.operator_name().name;
    return absl::StartsWith(name, "aten::empty") ||
           absl::StartsWith(name, "aten::new_empty");
  }

  // Fills it again, with what torch takes, for the recorder to see; it counts
  // as no write.
  static void Fill(const at::Tensor& made) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::ScalarType type = made.scalar_type();
    if (!c10::isIntegralType(type, /*includeBool=*/true)) {
      made.fill_(std::numeric_limits<double>::quiet_NaN());
    } else if (type == at::kBool) {
      made.fill_(true);
    } else if (type == at::kUInt64) {
      made.fill_(std::numeric_limits<uint64_t>::max());
    } else {
      const size_t bits =
          8 * c10::elementSize(type) - (c10::isSignedType(type) ? 1 : 0);
      made.fill_(std::numeric_limits<int64_t>::max() >> (63 - bits));
    }
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
      const bool overwrites = facts.overwrites == OpFacts::kEach ||
                              facts.overwrites == static_cast<int>(i);
      VisitTensors(args[i], [&](const at::Tensor& tensor) {
        if (UnsupportedInside(*tensor.unsafeGetTensorImpl())) return;
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
        if (writes && (overwrites || is_arbitrary)) {
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
      InitCpuModes();
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

int32_t Recorder::LastRead() const {
  const auto& reads = impl_->tape.host_reads;
  return reads.empty() ? -1 : reads.back().call;
}

Recorder::Mark Recorder::now() const {
  const Tape& tape = impl_->tape;
  return {tape.calls.size(), tape.tensors.size(), tape.host_reads.size()};
}

void Recorder::RefuseCall(size_t call, const std::string& why,
                          std::string mend) {
  if (refusal_) return;
  const TapeCall& made = impl_->tape.calls[call];
  refusal_ = {.reason = absl::StrCat(made.op, ": ", why),
              .mend = std::move(mend),
              .at = {made.file, made.line}};
  if (made.place >= 0) refusal_.places.push_back(impl_->places[made.place]);
}

const std::string& Recorder::OpOf(size_t call) const {
  return impl_->tape.calls[call].op;
}

int64_t Recorder::num_calls() const {
  return static_cast<int64_t>(impl_->tape.calls.size());
}

}  // namespace mica
