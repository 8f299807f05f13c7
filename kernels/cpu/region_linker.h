// Images of regions' code, joined to the loops that they call.

#ifndef MICA_KERNELS_CPU_REGION_LINKER_H_
#define MICA_KERNELS_CPU_REGION_LINKER_H_

#include "absl/status/statusor.h"
#include "kernels/cpu/code_store.h"
#include "kernels/cpu/machine_code.h"
#include "kernels/cpu/region_loops.h"

namespace mica::cpu {

// As MachineCode::Load(), with the addresses of loops in the image's table.
// They must be of the level that the code was made for. DataLoss if the image
// doesn't end with such a table; FailedPrecondition if it names a loop and
// `loops` is null or doesn't have it.
absl::StatusOr<MachineCode> LoadRegionCode(CodeImage image,
                                           const RegionLoops* loops);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_LINKER_H_
