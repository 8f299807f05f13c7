// Runs one op on generated operands through any kernel, without a Plan.

#ifndef MICA_TESTS_CONFORMANCE_ONE_OP_H_
#define MICA_TESTS_CONFORMANCE_ONE_OP_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/device/device.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"
#include "framework/tensor/tensor.h"
#include "gtest/gtest.h"

namespace mica {

// A call with types in place of operands, each with the range that its numbers
// are drawn from if the default one doesn't do:
//
//   aten.embedding(f32[10,4], i64[3]~0..9)
//   aten.add.Tensor(f32[2,3]{1,2}, f64)
//
// The Program has the operands as inputs and the one op.
struct Case {
  std::string text;
  std::shared_ptr<const Program> program;
  struct Range {
    bool is_given = false;
    double low = 0;
    double high = 0;
  };
  std::vector<Range> ranges;  // Of each input.

  const Op& op() const { return program->ops()[0]; }
};

// InvalidArgument as ParseProgram has it.
absl::StatusOr<Case> ParseCase(absl::string_view text,
                               const OpRegistry& registry);

// What is varied between two runs of a case.
struct RunOptions {
  int num_threads = 1;
  bool freezes_operands = false;
  bool shares_bytes = false;  // Result 0 takes an operand's, where allowed.
  int unused_result = -1;
  // Results column-major in place of row-major.
  bool transposes_results = false;
  // Results that are images with their channels last.
  bool puts_channels_last = false;
};

// Operands with numbers drawn from `seed`; some of the floats are NaN,
// infinite or -0 if `has_specials`.
struct Operands {
  std::vector<Tensor> tensors;
};
absl::StatusOr<Operands> DrawOperands(const Case& c, uint32_t seed,
                                      bool has_specials);

// The request that a planner would make of the case.
KernelRequest MakeRequest(const Case& c, const RunOptions& options);

// What `kernel` computes, row-major; an unused result is left empty. Fails if
// the kernel declines (FailedPrecondition, with its reason), at its own error,
// and if it wrote anywhere but on its results (Internal). It runs on `device`,
// or on the host where that is null.
absl::StatusOr<std::vector<Tensor>> RunKernel(
    const Kernel& kernel, const Case& c, const Operands& operands,
    const RunOptions& options, std::shared_ptr<Device> device = nullptr);

// Empty if `got` is `want` within what the dtype and `scale`, how many terms
// were summed, allow; else says where they differ.
std::string CompareTensors(const TensorView& got, const TensorView& want,
                           double scale);

// What a test of one operator is called.
inline std::string TestName(const testing::TestParamInfo<const OpDef*>& info) {
  std::string name = info.param->name();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace mica

#endif  // MICA_TESTS_CONFORMANCE_ONE_OP_H_
