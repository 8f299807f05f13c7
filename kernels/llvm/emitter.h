// A region's signature as a function in LLVM's intermediate form.
//
// The function goes through the rows, and through a row by vectors of as many
// lanes for every type, so that a lane is one element throughout. What reads
// the last, incomplete vector differs from the others alone, not what computes:
//
//   for each row: addresses; operands of one element, in all lanes
//     for i = 0, lanes, … < n:
//       load vectors, or what there is (row_vectors.h)
//       compute
//       store vectors, or what there is
//
// Vectors are wider than registers where the code is cheap: LLVM cuts them,
// which unrolls the loop.

#ifndef MICA_KERNELS_LLVM_EMITTER_H_
#define MICA_KERNELS_LLVM_EMITTER_H_

#include <cstdint>
#include <vector>

#include "kernels/llvm/ir_lanes.h"
#include "kernels/region/region_rows.h"

namespace mica::region::ir {

// The name of the function.
inline constexpr const char* kEntry = "run_region";

// Adds it to the module, and gives the loops that it calls, in the order of
// their table (kernels/region/loop_table.h). Requires what ParseSignature()
// checks.
std::vector<uint64_t> Emit(const Signature& signature, Level level,
                           llvm::Module& module);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_EMITTER_H_
