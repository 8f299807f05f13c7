// What only data can get wrong: every kernel of the op says so and writes
// nothing outside of its results.

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/conformance/one_op.h"

namespace mica {
namespace {

using ::testing::HasSubstr;

// Runs the case on each kernel that takes it.
void ExpectFailure(absl::string_view text, absl::string_view message) {
  MICA_ASSERT_OK_AND_ASSIGN(Case c, ParseCase(text, AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(Operands operands,
                            DrawOperands(c, 1, /*has_specials=*/false));
  const KernelKey key = {.op = c.op().def->name(),
                         .dtype = operands.tensors[0].type().dtype};
  for (const Kernel& kernel : AllKernels().Find(key)) {
    const auto results = RunKernel(kernel, c, operands, {});
    if (absl::IsFailedPrecondition(results.status())) continue;
    EXPECT_THAT(results, StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr(std::string(message))))
        << kernel.name << " on " << text;
  }
}

TEST(DataErrorsTest, IndicesOutsideAreNamed) {
  ExpectFailure("aten.embedding(f32[10,4], i64[3]~10..10)",
                "index 10 is out of range for");
  ExpectFailure("aten.embedding(f32[10,4], i64[3]~-1..-1)", "index -1");
  ExpectFailure("aten.index.Tensor(f32[5,7], [i64[2]~5..5])",
                "index 5 is out of range for");
  ExpectFailure("aten.index.Tensor(f32[5,7], [none, i64[2]~-8..-8])",
                "index -8");
  ExpectFailure("aten.index_select(f32[5,7], 1, i64[2]~7..7)", "index 7");
  ExpectFailure("aten.gather(f32[5,7], 1, i64[5,1]~7..7)", "index 7");
  ExpectFailure("aten.scatter.value(f32[5,7], 0, i64[1,7]~5..5, 1)", "index 5");
  ExpectFailure("aten.index_put(f32[5,7], [i64[2]~9..9], f32[])", "index 9");
  ExpectFailure("aten.nll_loss_forward(f32[5,7], i64[5]~7..7, none, 1, -100)",
                "Target 7 is out of bounds");
}

TEST(DataErrorsTest, IntegersAreNotDividedByZero) {
  for (absl::string_view op :
       {"aten.floor_divide", "aten.remainder.Tensor", "aten.fmod.Tensor"}) {
    ExpectFailure(absl::StrCat(op, "(i64[3], i64[3]~0..0)"),
                  "ZeroDivisionError");
  }
}

}  // namespace
}  // namespace mica
