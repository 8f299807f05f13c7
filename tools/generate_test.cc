#include "tools/generate.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/executor.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tools/fill.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(GenerateTest, MakesAsManyOpsAsAsked) {
  for (const char* kind : {"chain", "relu_add", "fan", "ladder", "random"}) {
    MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                              Generate({.kind = kind, .ops = 57}, AllOps()));
    EXPECT_EQ(program.ops().size(), 57u);
    EXPECT_TRUE(program.is_static());
  }
}

TEST(GenerateTest, EqualOptionsGiveEqualPrograms) {
  for (const char* kind : {"chain", "relu_add", "fan", "ladder", "random",
                           "transformer", "transformer_step"}) {
    const GenerateOptions options = {.kind = kind, .ops = 40, .layers = 2};
    MICA_ASSERT_OK_AND_ASSIGN(const Program one, Generate(options, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(const Program two, Generate(options, AllOps()));
    EXPECT_EQ(ToText(one), ToText(two));
  }
}

TEST(GenerateTest, LayersHaveTheirOwnVariables) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      Generate({.kind = "transformer", .layers = 3}, AllOps()));
  EXPECT_EQ(program.variables().size(), 3u * 12 + 2);
}

TEST(GenerateTest, StepsDescend) {
  MICA_ASSERT_OK_AND_ASSIGN(Program program,
                            Generate({.kind = "transformer_step",
                                      .layers = 2,
                                      .hidden = 16,
                                      .heads = 2,
                                      .seq = 5},
                                     AllOps()));
  uint64_t seed = 0;
  MICA_ASSERT_OK_AND_ASSIGN(
      const Tensor x, RandomTensor(program.type(program.inputs()[0]), ++seed));
  std::vector<Tensor> tensors;
  NamedViews variables;
  for (const Variable& variable : program.variables()) {
    MICA_ASSERT_OK_AND_ASSIGN(
        Tensor tensor, RandomTensor(program.type(variable.value), ++seed));
    variables[variable.name] = tensor.view();
    tensors.push_back(std::move(tensor));
  }
  MICA_ASSERT_OK_AND_ASSIGN(auto executor,
                            Executor::Create({}, AllOps(), AllKernels(), {}));
  const auto shared = std::make_shared<const Program>(std::move(program));
  float last = INFINITY;
  for (int i = 0; i < 5; ++i) {
    MICA_ASSERT_OK_AND_ASSIGN(
        const std::vector<Tensor> loss,
        executor->Run(shared, {{"x", x.view()}}, variables, {}));
    const float now = *static_cast<const float*>(loss[0].data());
    EXPECT_LT(now, last);
    last = now;
  }
}

TEST(GenerateTest, NamesTheOptionThatIsWrong) {
  EXPECT_THAT(Generate({.kind = "ring"}, AllOps()),
              StatusIs(kInvalid, HasSubstr("got 'ring'")));
  EXPECT_THAT(Generate({.kind = "chain", .ops = 0}, AllOps()),
              StatusIs(kInvalid, HasSubstr("ops: wants 1 to")));
  EXPECT_THAT(
      Generate({.kind = "transformer", .hidden = 10, .heads = 3}, AllOps()),
      StatusIs(kInvalid, HasSubstr("multiple of 3 heads")));
}

}  // namespace
}  // namespace mica
