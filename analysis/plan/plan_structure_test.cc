#include "analysis/plan/plan_structure.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analysis/plan/plan_cache.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/content.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

constexpr absl::string_view kLinear = R"(program @net(%x: f32[BATCH,64]) {
  %w = variable "w" : f32[48,64]
  %b = variable "b" : f32[48]
  %t = aten.t(%w) : f32[64,48]{1,64}
  %h = aten.addmm(%b, %x, %t) : f32[BATCH,48]
  %r = aten.relu(%h) : f32[BATCH,48]
  %s = aten.mul.Scalar(%r, 0.5) : f32[BATCH,48]
  %y = aten.add.Tensor(%s, %r) : f32[BATCH,48]
  %v = aten.view(%y, [BATCH,6,8]) : f32[BATCH,6,8]
  return %v
}
)";

constexpr absl::string_view kConvolution =
    R"(program @conv(%x: f32[BATCH,3,16,16]) {
  %w = variable "w" : f32[8,3,3,3]
  %c = aten.convolution(%x, %w, none, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[BATCH,8,16,16]
  %r = aten.relu(%c) : f32[BATCH,8,16,16]
  %m = aten.mean.dim(%r, [2,3]) : f32[BATCH,8]
  return %m
}
)";

constexpr absl::string_view kBranch =
    R"(program @branch(%x: f32[BATCH,8], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[BATCH,8]
    then(%x: f32[BATCH,8]) {
      %k = constant splat 0.5 : f32[BATCH,8]
      %m = aten.mul.Tensor(%x, %k) : f32[BATCH,8]
      %r = aten.relu(%m) : f32[BATCH,8]
      return %r
    }
    else(%x: f32[BATCH,8]) {
      %s = aten.sum.dim_IntList(%x, [0], true) : f32[1,8]
      %d = aten.sub.Tensor(%x, %s) : f32[BATCH,8]
      return %d
    }
  return %y
}
)";

// Equal layers, which a pass finds: each adds a constant of its own.
std::string Layers(int count) {
  std::string text = "program @layers(%h0: f32[BATCH,16]) {\n";
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "  %w", i, " = variable \"w", i,
                    "\" : f32[16,16]\n  %k", i, " = constant splat ", i,
                    ".5 : f32[16]\n");
  }
  for (int i = 0; i < count; ++i) {
    constexpr absl::string_view kLayer = R"(  %aN = aten.mm(%hN, %wN) : TYPE
  %bN = aten.add.Tensor(%aN, %kN) : TYPE
  %cN = aten.tanh(%bN) : TYPE
  %dN = aten.mm(%cN, %wN) : TYPE
  %eN = aten.sigmoid(%dN) : TYPE
  %fN = aten.mm(%eN, %wN) : TYPE
  %gN = aten._softmax(%fN, -1, false) : TYPE
  %iN = aten.mm(%gN, %wN) : TYPE
  %hM = aten.add.Tensor(%iN, %hN) : TYPE
)";
    absl::StrAppend(&text,
                    absl::StrReplaceAll(kLayer, {{"N", absl::StrCat(i)},
                                                 {"M", absl::StrCat(i + 1)},
                                                 {"TYPE", "f32[BATCH,16]"}}));
  }
  absl::StrAppend(&text, "  return %h", count, "\n}\n");
  return text;
}

class PlanStructureTest : public testing::Test {
 protected:
  static std::shared_ptr<const Program> Net(absl::string_view text,
                                            absl::string_view batch) {
    absl::StatusOr<Program> program =
        ParseProgram(absl::StrReplaceAll(text, {{"BATCH", batch}}), AllOps());
    EXPECT_THAT(program, IsOk());
    return std::make_shared<const Program>(*std::move(program));
  }

  // The Plan through the cache, which is the one that is built without it.
  std::shared_ptr<const Plan> Get(const std::shared_ptr<const Program>& program,
                                  const PlanOptions& options = {}) {
    const auto plan = plans_.Get(program, options);
    const auto alone = Plan::Build(program, AllOps(), AllKernels(), options);
    EXPECT_THAT(plan, IsOk());
    EXPECT_THAT(alone, IsOk());
    EXPECT_EQ((*plan)->ToText(), (*alone)->ToText());
    EXPECT_EQ(ToText((*plan)->program()), ToText((*alone)->program()));
    return *plan;
  }

  PlanCache plans_{AllOps(), AllKernels()};
};

TEST_F(PlanStructureTest, SizesAloneMakeNoOtherStructure) {
  const auto a = Get(Net(kLinear, "4"));
  const auto b = Get(Net(kLinear, "32"));
  const auto c = Get(Net(kLinear, "32"), {.frozen = true});
  EXPECT_NE(a->structure(), nullptr);
  EXPECT_EQ(a->structure(), b->structure());
  EXPECT_EQ(a->structure(), c->structure());
  EXPECT_EQ(plans_.stats().built, 3);
  EXPECT_EQ(plans_.stats().by_structure, 2);
}

TEST_F(PlanStructureTest, SizesThatBecomeEqualOrOneAreAnotherStructure) {
  const auto a = Get(Net(kLinear, "4"));
  for (absl::string_view batch : {"1", "0", "48", "64", "6"}) {
    EXPECT_NE(Get(Net(kLinear, batch))->structure(), a->structure()) << batch;
  }
  EXPECT_EQ(plans_.stats().by_structure, 0);
}

TEST_F(PlanStructureTest, LayersThatAPassFindsAreShared) {
  const std::string layers = Layers(8);
  const auto a = Get(Net(layers, "4"));
  EXPECT_FALSE(a->calls().empty());
  Get(Net(layers, "5"));
  Get(Net(layers, "32"));
}

TEST_F(PlanStructureTest, LayoutsAreChosenForEachSize) {
  const auto a = Get(Net(kConvolution, "2"));
  const auto b = Get(Net(kConvolution, "5"));
  EXPECT_NE(a->structure(), nullptr);
  EXPECT_EQ(a->structure(), b->structure());
}

TEST_F(PlanStructureTest, BranchesAndLoopsHaveOneToo) {
  const auto a = Get(Net(kBranch, "4"));
  const auto b = Get(Net(kBranch, "32"));
  EXPECT_NE(a->structure(), nullptr);
  EXPECT_EQ(a->structure(), b->structure());
  EXPECT_EQ(plans_.stats().by_structure, 1);
  // A size of a body that becomes equal to another counts as one outside.
  for (absl::string_view batch : {"1", "8"}) {
    EXPECT_NE(Get(Net(kBranch, batch))->structure(), a->structure()) << batch;
  }
  EXPECT_EQ(plans_.stats().by_structure, 1);
}

TEST_F(PlanStructureTest, SizesOfABodyAreToldFromThoseAround) {
  const auto bytes = [](absl::string_view batch) {
    return StructureOf(*Net(kBranch, batch)).bytes;
  };
  EXPECT_EQ(bytes("4"), bytes("5"));
  EXPECT_NE(bytes("4"), bytes("8"));
}

TEST_F(PlanStructureTest, AStructureDiesWithItsPlans) {
  Get(Net(kLinear, "4"));
  Get(Net(kLinear, "5"));
  EXPECT_EQ(plans_.stats().by_structure, 0);
}

TEST_F(PlanStructureTest, NumbersThatAreNoSizesCount) {
  const auto relu = Net(kLinear, "4");
  const auto scaled = Net(absl::StrReplaceAll(kLinear, {{"0.5", "0.25"}}), "5");
  EXPECT_NE(StructureOf(*relu).bytes, StructureOf(*scaled).bytes);
  EXPECT_EQ(StructureOf(*relu).bytes, StructureOf(*Net(kLinear, "5")).bytes);
}

}  // namespace
}  // namespace mica
