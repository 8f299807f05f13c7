#include "python/torch_side/tensors/torch_state.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "framework/base/prefetch.h"
#include "python/torch_side/tensors/cpu_modes.h"
#include "python/torch_side/tensors/torch_compat.h"

namespace mica {
namespace {

std::string OnOff(bool value) { return value ? "on" : "off"; }

std::string Dtype(int8_t type) {
  return ScalarTypeName(static_cast<c10::ScalarType>(type));
}

bool FlushesDenormals() {
#if defined(__SSE__)
  // Flush to zero, and denormals are zeros.
  return (_mm_getcsr() & 0x8040U) != 0;
#else
  return false;
#endif
}

uint16_t AllowedBackends(const at::Context& context) {
  int bits = 0, next = 1;
  for (const bool is_allowed :
       {context.userEnabledCuDNN(), context.userEnabledMkldnn(),
        context.userEnabledFlashSDP(), context.userEnabledMathSDP(),
        context.userEnabledMemEfficientSDP(), context.userEnabledCuDNNSDP(),
        context.userEnabledOverrideableSDP(), context.userEnabledFA3SDP(),
        context.userEnabledNNPACK(), context.deterministicMkldnn(),
        context.allowFP16ReductionCPU(),
        context.allowFP16BF16ReductionMathSDP()}) {
    bits |= is_allowed ? next : 0;
    next *= 2;
  }
  return static_cast<uint16_t>(bits);
}

// A field that is a flag.
template <bool TorchState::*kFlag>
std::string Flag(const TorchState& state) {
  return OnOff(state.*kFlag);
}
template <auto kNumber>
std::string Number(const TorchState& state) {
  return absl::StrCat(state.*kNumber);
}
template <int8_t TorchState::*kType>
std::string Type(const TorchState& state) {
  return Dtype(state.*kType);
}

using State = TorchState;

// What a user may have changed first; the sums of all of it last.
constexpr State::Field kFields[] = {
    {"grad", "grad mode", Flag<&State::grad>},
    {"inference", "inference mode", Flag<&State::inference>},
    {"autocast_cpu", "autocast on cpu", Flag<&State::autocast_cpu>},
    {"autocast_dtype", "autocast dtype", Type<&State::autocast_dtype>},
    {"autocast_cache", "autocast cache", Flag<&State::autocast_cache>},
    {"autocast_block", "a block of autocast", Flag<&State::autocast_block>},
    {"default_dtype", "default dtype", Type<&State::default_dtype>},
    {"deterministic", "deterministic algorithms", Flag<&State::deterministic>},
    {"deterministic_warn_only", "deterministic algorithms that only warn",
     Flag<&State::deterministic_warn_only>},
    {"fill_uninitialized", "filling of uninitialised memory",
     Flag<&State::fill_uninitialized>},
    {"anomaly", "anomaly mode", Flag<&State::anomaly>},
    {"warn_always", "warnings that are always given",
     Flag<&State::warn_always>},
    {"forward_level", "a level of forward-mode differentiation",
     Flag<&State::forward_level>},
    {"forward_grad", "forward-mode differentiation",
     Flag<&State::forward_grad>},
    {"view_replay", "view replay", Flag<&State::view_replay>},
    {"grad_layout", "the layout of new gradients", Flag<&State::grad_layout>},
    {"multithreading", "autograd's threads", Flag<&State::multithreading>},
    {"flush_denormal", "flushing of denormal numbers",
     Flag<&State::flush_denormal>},
    {"backends", "torch.backends settings", Number<&State::backends>},
    {"matmul_precision", "float32 matmul precision",
     Number<&State::matmul_precision>},
    {"function_modes", "torch function modes", Number<&State::function_modes>},
    {"function_modes_of_cpu", "the CPU as default device",
     Flag<&State::function_modes_of_cpu>},
    {"torch_function_state", "handling of __torch_function__",
     Number<&State::torch_function_state>},
    {"saved_tensor_hooks", "hooks on what autograd saves",
     Flag<&State::saved_tensor_hooks>},
    {"dispatch_modes", "torch dispatch modes", Number<&State::dispatch_modes>},
    {"included_keys", "torch's thread-local dispatch keys",
     Number<&State::included_keys>},
    {"excluded_keys", "torch's thread-local dispatch keys that are left out",
     Number<&State::excluded_keys>}};

// What is asked of torch, all of it.
TorchState Ask() {
  TorchState state;
  const c10::impl::LocalDispatchKeySet keys =
      c10::impl::tls_local_dispatch_key_set();
  state.included_keys = keys.included_.raw_repr();
  state.excluded_keys = keys.excluded_.raw_repr();
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  state.grad = autograd.get_grad_mode();
  state.inference = autograd.get_inference_mode();
  state.forward_grad = autograd.get_fw_grad_mode();
  state.view_replay = autograd.get_view_replay_enabled();
  state.grad_layout = autograd.get_grad_layout_enforcement_enabled();
  state.multithreading = autograd.get_multithreading_enabled();
  const at::Context& context = at::globalContext();
  state.deterministic = context.deterministicAlgorithms();
  state.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  state.fill_uninitialized = context.deterministicFillUninitializedMemory();
  state.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  state.backends = AllowedBackends(context);
  state.torch_function_state = static_cast<int8_t>(
      at::impl::PythonTorchFunctionTLS::get_disabled_state());
  state.function_modes =
      static_cast<int32_t>(at::impl::PythonTorchFunctionTLS::stack_len());
  state.dispatch_modes =
      static_cast<int32_t>(c10::impl::TorchDispatchModeTLS::stack_len()) +
      (c10::impl::TorchDispatchModeTLS::any_modes_set() ? 1 : 0);
  state.matmul_precision = static_cast<int8_t>(MatmulPrecision());
  state.saved_tensor_hooks =
      !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
  return state;
}

// A thread's state as it was last asked for, with the memory that all of it but
// for AskRest() follows from: as long as no byte of that differs, it is the
// same. Asking takes thirty calls, whose code and data are out of the caches
// after a run.
class KnownState {
 public:
  void Prefetch() const {
    PrefetchCode(&c10::WarningUtils::get_warnAlways);
    PrefetchCode(&torch::autograd::ForwardADLevel::try_get_by_idx);
    PrefetchCode(&at::autocast::is_autocast_cache_enabled);
    PrefetchCode(&at::autocast::increment_nesting);
    PrefetchCode(&at::autocast::get_autocast_dtype);
    PrefetchCode(&c10::get_default_dtype_as_scalartype);
    for (const Region& region : regions_) {
      mica::Prefetch(region.at, region.size);
    }
    PrefetchItems(bytes_);
  }

  TorchState Current() {
    if (!IsAsItWas()) {
      state_ = Ask();
      Note();
    }
    AskRest();
    return state_;
  }

 private:
  struct Region {
    const char* at = nullptr;
    size_t size = 0;
    size_t known_at = 0;  // In `bytes_`.
  };

  template <typename F>
  static void PrefetchCode(F* function) {
    mica::Prefetch(reinterpret_cast<const void*>(function), 2 * kCacheLine);
  }

  bool IsAsItWas() const {
    for (const Region& region : regions_) {
      if (std::memcmp(region.at, bytes_.data() + region.known_at,
                      region.size) != 0) {
        return false;
      }
    }
    return !regions_.empty();
  }

  void Note() {
    regions_.clear();
    bytes_.clear();
    Add(c10::impl::raw_local_dispatch_key_set);
    Add(c10::AutogradState::get_tls_state());
    Add(at::impl::PythonTorchFunctionTLS::get_state());
    Add(c10::impl::TorchDispatchModeTLS::get_state());
    Add(at::SavedTensorDefaultHooks::get_tls_state());
    Add(at::globalContext());
    for (const auto* precision : FloatPrecisions()) Add(*precision);
  }

  template <typename T>
  void Add(const T& object) {
    const auto* at = reinterpret_cast<const char*>(&object);
    regions_.push_back(
        {.at = at, .size = sizeof(T), .known_at = bytes_.size()});
    bytes_.insert(bytes_.end(), at, at + sizeof(T));
  }

  // What lies where nobody tells.
  void AskRest() {
    state_.anomaly = torch::autograd::AnomalyMode::is_enabled();
    state_.warn_always = c10::WarningUtils::get_warnAlways();
    state_.forward_level =
        torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
    state_.flush_denormal = FlushesDenormals();
    state_.function_modes_of_cpu = state_.function_modes != 0 && AreCpuModes();
    state_.autocast_cache = at::autocast::is_autocast_cache_enabled();
    state_.autocast_block = at::autocast::increment_nesting() > 1;
    at::autocast::decrement_nesting();
    state_.autocast_dtype =
        static_cast<int8_t>(at::autocast::get_autocast_dtype(at::kCPU));
    state_.default_dtype =
        static_cast<int8_t>(c10::get_default_dtype_as_scalartype());
  }

  TorchState state_;
  std::vector<Region> regions_;
  std::vector<char> bytes_;
};

KnownState& KnownHere() {
  static thread_local KnownState known;
  return known;
}

}  // namespace

absl::Span<const TorchState::Field> TorchState::Fields() { return kFields; }

MICA_HIT_CODE TorchState TorchState::Current() { return KnownHere().Current(); }

MICA_HIT_CODE void TorchState::Prefetch() { KnownHere().Prefetch(); }

std::string TorchState::Difference(const TorchState& now) const {
  for (const Field& field : kFields) {
    const std::string was = field.show(*this), is = field.show(now);
    if (was == is) continue;
    return absl::StrCat(field.title, ": recorded ", was, ", now ", is);
  }
  return "torch's state differs";
}

std::optional<std::string> TorchState::Unsupported() const {
  if (dispatch_modes != 0) return "a TorchDispatchMode is active";
  if (saved_tensor_hooks) {
    return "hooks see what autograd saves (torch.utils.checkpoint has such)";
  }
  if (function_modes != 0 && !function_modes_of_cpu) {
    return "a TorchFunctionMode is active (torch.set_default_device of another "
           "device than the CPU is one)";
  }
  if (deterministic && deterministic_warn_only) {
    return "torch.use_deterministic_algorithms only warns: operators may warn";
  }
  if (anomaly) {
    return "torch.autograd.set_detect_anomaly is on: eager code tells where a "
           "backward pass goes wrong";
  }
  if (forward_level) {
    return "a level of torch.autograd.forward_ad is open: tensors may carry "
           "tangents";
  }
  if (warn_always) return "torch.set_warn_always is on";
  const c10::DispatchKeySet included(c10::DispatchKeySet::RAW, included_keys);
  if (included.has_any(c10::DispatchKeySet(
          {c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
           c10::DispatchKey::FuncTorchDynamicLayerBackMode,
           c10::DispatchKey::FuncTorchVmapMode, c10::DispatchKey::Tracer,
           c10::DispatchKey::Functionalize, c10::DispatchKey::Python,
           c10::DispatchKey::PreDispatch,
           c10::DispatchKey::PythonDispatcher}))) {
    return "a functorch transform, a tracer or a Python dispatcher is active";
  }
  return std::nullopt;
}

}  // namespace mica
