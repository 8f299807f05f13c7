// What a program may ask of torch's and Python's state, and what guards it.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_STATE_GETTERS_H_
#define MICA_PYTHON_CAPTURE_KNOWN_STATE_GETTERS_H_

#include "absl/strings/string_view.h"

namespace mica {

// A function in C that reads state and changes none. A function that isn't in
// the table ends a capture.
struct StateGetter {
  absl::string_view name;
  // The field of TorchState that it reads; or one of the two below.
  absl::string_view guard;
};

// The same for a process's life.
inline constexpr absl::string_view kFixed = "fixed";
// No field: a record of a program that asked has it asked again before each
// hit, and what it gives has to be what it gave before the recorded run. For
// what is a constant only (a number, a text, a dtype).
inline constexpr absl::string_view kAskedAgain = "asked again";

inline constexpr StateGetter kStateGetters[] = {
    {"torch._C.is_grad_enabled", "grad"},
    {"torch._C.is_inference_mode_enabled", "inference"},
    {"torch._C._is_fwd_grad_enabled", "forward_grad"},
    {"torch._C._is_view_replay_enabled", "view_replay"},
    {"torch._C._is_grad_layout_enforcement_enabled", "grad_layout"},
    {"torch._C._is_multithreading_enabled", "multithreading"},
    {"torch._C.is_anomaly_enabled", "anomaly"},
    {"torch._C.is_anomaly_check_nan_enabled", kAskedAgain},
    {"torch._C._get_warnAlways", "warn_always"},
    {"torch._C.is_autocast_cpu_enabled", "autocast_cpu"},
    {"torch._C.get_autocast_cpu_dtype", "autocast_dtype"},
    {"torch._C.is_autocast_cache_enabled", "autocast_cache"},
    {"torch._C._is_any_autocast_enabled", kAskedAgain},
    {"torch._C._is_autocast_available", kFixed},
    {"torch._C.get_default_dtype", "default_dtype"},
    {"torch._C._get_default_device", kAskedAgain},
    {"torch._C._get_deterministic_algorithms", "deterministic"},
    {"torch._C._get_deterministic_algorithms_warn_only",
     "deterministic_warn_only"},
    {"torch._C._get_deterministic_fill_uninitialized_memory",
     "fill_uninitialized"},
    {"torch._C._get_float32_matmul_precision", "matmul_precision"},
    {"torch._C._get_cudnn_enabled", "backends"},
    {"torch._C._get_mkldnn_enabled", "backends"},
    {"torch._C._get_mkldnn_deterministic", "backends"},
    {"torch._C._get_nnpack_enabled", "backends"},
    {"torch._C._get_flash_sdp_enabled", "backends"},
    {"torch._C._get_fa3_sdp_enabled", "backends"},
    {"torch._C._get_math_sdp_enabled", "backends"},
    {"torch._C._get_math_sdp_allow_fp16_bf16_reduction", "backends"},
    {"torch._C._get_mem_efficient_sdp_enabled", "backends"},
    {"torch._C._get_cudnn_sdp_enabled", "backends"},
    {"torch._C._get_overrideable_sdp_enabled", "backends"},
    {"torch._C._get_cpu_allow_fp16_reduced_precision_reduction", "backends"},
    {"torch._C._get_cudnn_allow_tf32", kAskedAgain},
    {"torch._C._get_cudnn_benchmark", kAskedAgain},
    {"torch._C._get_cudnn_deterministic", kAskedAgain},
    {"torch._C._get_cublas_allow_tf32", kAskedAgain},
    {"torch._C._get_cublas_allow_fp16_reduced_precision_reduction",
     kAskedAgain},
    {"torch._C._get_cublas_allow_bf16_reduced_precision_reduction",
     kAskedAgain},
    {"torch._C._get_cublas_allow_fp16_accumulation", kAskedAgain},
    {"torch._C._get_onednn_allow_tf32", kAskedAgain},
    {"torch._C._get_qengine", kAskedAgain},
    {"torch._C._get_tracing_state", "included_keys"},
    {"torch._C._is_tracing", "included_keys"},
    {"torch._C._are_functorch_transforms_active", "included_keys"},
    {"torch._C._functorch.peek_interpreter_stack", "included_keys"},
    {"torch._C._functorch.maybe_current_level", "included_keys"},
    {"torch._C._functorch.get_dynamic_layer_stack_depth", "included_keys"},
    {"torch.autograd.Variable._execution_engine.is_checkpoint_valid", kFixed},
    // What the program itself set, and sets back.
    {"torch._C._functorch.get_inplace_requires_grad_allowed", kAskedAgain},
    {"torch._C._functorch.get_single_level_autograd_function_allowed",
     kAskedAgain},
    {"torch._C._functorch.current_level", "included_keys"},
    {"torch._C._autograd._saved_tensors_hooks_get_disabled_error_message",
     kAskedAgain},
    {"torch._C._get_graph_exec_group", kAskedAgain},
    {"torch._C._is_torch_function_enabled", "torch_function_state"},
    {"torch._C._is_torch_function_all_disabled", "torch_function_state"},
    {"torch._C._is_torch_function_mode_enabled", "function_modes"},
    {"torch._C._len_torch_function_stack", "function_modes"},
    {"torch._C._len_torch_dispatch_stack", "dispatch_modes"},
    {"torch._C._get_dispatch_mode", "dispatch_modes"},
    {"torch._C._autograd._saved_tensors_hooks_is_enabled", kAskedAgain},
    {"torch._C._autograd._profiler_enabled", kAskedAgain},
    {"torch._C._get_autograd_fallback_mode", kAskedAgain},
    {"torch._C._get_privateuse1_backend_name", kAskedAgain},
    {"torch._C._get_cpu_capability", kFixed},
    {"torch._C._get_accelerator", kFixed},
    {"torch._C._accelerator_getAccelerator", kFixed},
    {"torch._C._has_distributed", kFixed},
    {"torch._C._mps_is_available", kFixed},
    {"torch._C._mps_is_on_macos_or_newer", kFixed},
    {"torch._C._log_api_usage_once", kFixed},
    // Of a torch that knows CUDA; in another, the names are missing or a type.
    {"torch.cuda.device_count", kFixed},
    {"torch._C._cuda_getDeviceCount", kFixed},
    {"torch._C._cuda_isInBadFork", kAskedAgain},
    {"torch._C._cuda_isCurrentStreamCapturing", kAskedAgain},

    {"_thread.get_ident", kAskedAgain},
    {"_thread.get_native_id", kAskedAgain},
    {"sys.getrecursionlimit", kAskedAgain},
    {"sys.getswitchinterval", kAskedAgain},
    {"sys.is_finalizing", kAskedAgain},
    // None where capture runs, or it ends the capture.
    {"sys.getprofile", kAskedAgain},
    // None, as calls run eagerly while there is a tracer. The watch's own isn't
    // shown to the program.
    {"sys.gettrace", kFixed},
    {"gc.isenabled", kAskedAgain},
    // Of what was raised before the call: nothing, or it ends the capture.
    {"sys.exc_info", kAskedAgain},
    {"sys.exception", kAskedAgain},
    {"_abc.get_cache_token", kAskedAgain},
};

// The same of functions that take the name of a device: what they give for each
// of these is asked again, but for the CPU, which TorchState has.
inline constexpr StateGetter kStateGettersOfDevices[] = {
    {"torch._C.is_autocast_enabled", "autocast_cpu"},
    {"torch._C.get_autocast_dtype", "autocast_dtype"}};
inline constexpr const char* kDevices[] = {
    "cuda", "xpu", "mps", "mtia", "xla", "hpu", "ipu", "maia", "privateuseone"};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_STATE_GETTERS_H_
