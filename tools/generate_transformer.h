// Encoder layers, op by op, as a framework records them.

#ifndef MICA_TOOLS_GENERATE_TRANSFORMER_H_
#define MICA_TOOLS_GENERATE_TRANSFORMER_H_

#include <utility>

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"
#include "tools/generate.h"

namespace mica {

// Of 32-bit floats.
inline TensorType F32(Dims dims) { return TensorType{.dims = std::move(dims)}; }

// Inference; queries, keys and values by one product. Requires CheckOptions().
absl::StatusOr<Program> GenerateTransformer(const GenerateOptions& options,
                                            const OpRegistry& registry);

// A step of gradient descent on the mean square of the result; queries, keys
// and values by a product each. Returns the loss and updates the weights.
// Requires CheckOptions().
absl::StatusOr<Program> GenerateTransformerStep(const GenerateOptions& options,
                                                const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_TOOLS_GENERATE_TRANSFORMER_H_
