// Programs made to order, for benchmarks and tests.

#ifndef MICA_TOOLS_GENERATE_H_
#define MICA_TOOLS_GENERATE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"
#include "framework/tensor/dtype.h"

namespace mica {

struct GenerateOptions {
  // "chain": adds on one element, each of the last. "relu_add": relu and add
  // in turn on small tensors, some values used more than once. "fan": ops that
  // all read one value, and their sum. "ladder": two chains with rungs.
  // "random": each op reads some of those not far before. "transformer": the
  // inference of pre-norm encoder layers; "transformer_step": a training step
  // of such, forward, backward and the update of every weight.
  std::string kind = "chain";
  int64_t ops = 1000;  // Of all but transformers.

  // Of transformers.
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t batch = 1;
  int64_t seq = 128;
  DType dtype = DType::kF32;
};

// InvalidArgument for options that are out of range or don't fit each other.
absl::Status CheckOptions(const GenerateOptions& options);

// Equal options give equal Programs. InvalidArgument as CheckOptions().
absl::StatusOr<Program> Generate(const GenerateOptions& options,
                                 const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_TOOLS_GENERATE_H_
