// Whether oneDNN is there, for files that know nothing else of it. A build
// without it has no_onednn.cc in the place of all onednn_*.cc.

#ifndef MICA_KERNELS_CPU_ONEDNN_H_
#define MICA_KERNELS_CPU_ONEDNN_H_

#include <string>

#include "absl/status/status.h"

namespace mica::cpu {

// Unimplemented where the build hasn't got the library, or the processor hasn't
// got the instructions that all of the library is compiled for. Asked before
// anything of it runs.
absl::Status CheckDnnlRuns();

// Which library it is: its version and commit.
std::string DnnlVersion();
// The instructions that it chooses code for, in its own numbers.
std::string DnnlInstructions();

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ONEDNN_H_
