// torch's modes and flags, as guards want them.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_STATE_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mica {

// What torch keeps for a thread or the process and operators depend on. Each
// record is guarded by all of it. The names of its fields are those that
// known/state_getters.h gives for the functions that a program may ask.
struct TorchState {
  uint64_t included_keys = 0;
  uint64_t excluded_keys = 0;
  bool grad = false;
  bool inference = false;
  bool forward_grad = false;
  bool view_replay = false;
  bool grad_layout = false;  // New gradients lie as their leaves do.
  bool multithreading = false;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool fill_uninitialized = false;
  bool autocast_cpu = false;
  bool autocast_cache = false;
  bool autocast_block = false;  // One is open: what it casts is kept.
  bool anomaly = false;
  bool warn_always = false;
  // A level of forward-mode differentiation is open, on any thread.
  bool forward_level = false;
  // The processor takes denormal numbers for 0, on this thread.
  bool flush_denormal = false;
  bool saved_tensor_hooks = false;
  int8_t autocast_dtype = 0;
  int8_t default_dtype = 0;
  int8_t matmul_precision = 0;
  int8_t torch_function_state = 0;
  // Which back ends the user allows: cuDNN, MKL-DNN, attention kernels, ….
  uint16_t backends = 0;
  int32_t function_modes = 0;
  bool function_modes_of_cpu = false;  // There are some, of cpu_modes.h.
  int32_t dispatch_modes = 0;

  static TorchState Current();
  // Asks for what Current() reads on this thread, its code included.
  static void Prefetch();
  friend bool operator==(const TorchState&, const TorchState&) = default;

  struct Field {
    absl::string_view name;
    absl::string_view title;  // For the user.
    std::string (*show)(const TorchState&);
  };
  // All that operator== compares.
  static absl::Span<const Field> Fields();

  // What differs, "grad mode: recorded off, now on".
  std::string Difference(const TorchState& now) const;
  // Why nothing can be captured in this state ("a TorchDispatchMode is
  // active"), or nothing.
  std::optional<std::string> Unsupported() const;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_STATE_H_
