// The passes that there are.

#ifndef MICA_ANALYSIS_PIPELINE_ALL_PASSES_H_
#define MICA_ANALYSIS_PIPELINE_ALL_PASSES_H_

#include "absl/types/span.h"
#include "analysis/passes/pass.h"

namespace mica {

// In the order in which they run before a Program is planned. A new pass gets
// its place here, a contract, and golden files in tests/golden/passes/NAME.
absl::Span<const Pass> AllPasses();
// Those that run only where somebody asks for them: of functions,
absl::Span<const Pass> FunctionPasses();
// and for products in few bits, by Precision but the program's own.
absl::Span<const Pass> PrecisionPasses();

}  // namespace mica

#endif  // MICA_ANALYSIS_PIPELINE_ALL_PASSES_H_
