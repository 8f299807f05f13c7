// Which code this process runs kernels by, and on which machine.

#ifndef MICA_KERNELS_CPU_IDENTITY_H_
#define MICA_KERNELS_CPU_IDENTITY_H_

#include <string>

namespace mica::cpu {

// The id that the linker gave to the binary or the extension module that holds
// this function, and the versions of libraries that are loaded beside it:
// differs wherever passes or kernels do. Empty if the linker gave no id.
const std::string& CodeIdentity();

// What libraries ask a CPU before they choose code: model, instruction sets,
// what the system saves of registers, and the wishes of MICA_SIMD and of
// oneDNN's environment. Equal on machines for which all choose alike.
const std::string& CpuIdentity();

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_IDENTITY_H_
