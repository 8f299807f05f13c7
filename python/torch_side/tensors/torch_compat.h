// What depends on torch's version, in one place. Only for sources that include
// torch's headers anyway: recorder.cc, composites.cc and tensor_access.cc.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_COMPAT_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_COMPAT_H_

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include <optional>
#include <string>
#include <vector>

namespace mica {

// A key below autograd and Python modes and above the backends that torch has
// no kernels on: 2.13 keeps it for fake tensors made in C++, and registers
// nothing. A release that does makes Recorder::Install() fail with its reason.
inline constexpr c10::DispatchKey kRecorderKey = c10::DispatchKey::Fake;

// A key above autograd for what an operator's own kernel would conceal: torch
// keeps it for tests and registers nothing.
inline constexpr c10::DispatchKey kPartsKey =
    c10::DispatchKey::TESTING_ONLY_GenericMode;

// torch.set_float32_matmul_precision's level, as a number.
inline int MatmulPrecision() {
  try {
    return static_cast<int>(at::globalContext().float32MatmulPrecision());
  } catch (const c10::Error&) {  // Old and new settings mixed: throws.
    return -1;
  }
}

// The memory, beside at::Context's own bytes, that MatmulPrecision() follows
// from: to ask takes five look-ups in a table.
std::vector<const at::Float32Precision*> FloatPrecisions();

// "f32" as framework prints it; torch's own name where it has none.
const char* ScalarTypeName(c10::ScalarType type);

// torch's lazy bits: reading gives the conjugates, or the negatives, of the
// elements in memory.
inline bool IsLazyConj(const c10::TensorImpl& impl) {
  return impl.key_set().has(c10::DispatchKey::Conjugate);
}
inline bool IsLazyNeg(const c10::TensorImpl& impl) {
  return impl.key_set().has(c10::DispatchKey::Negative);
}

// Why capture can't take such a tensor, or nothing.
std::optional<std::string> UnsupportedTensorImpl(const c10::TensorImpl& impl);
// The same of one that the run makes and uses up: forward-mode AD has zeros
// without memory for tangents of constants (ZeroTensors).
std::optional<std::string> UnsupportedInside(const c10::TensorImpl& impl);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_TORCH_COMPAT_H_
