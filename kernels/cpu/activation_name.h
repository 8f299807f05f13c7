#ifndef MICA_KERNELS_CPU_ACTIVATION_NAME_H_
#define MICA_KERNELS_CPU_ACTIVATION_NAME_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// The activation that a fused op's attribute names; nothing if it is unknown.
std::optional<Activation> ActivationNamed(absl::string_view name);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ACTIVATION_NAME_H_
