// Programs of one text in many sizes, planned through one cache: each Plan is
// the one that its Program would have had alone, whatever Program of the same
// structure came before it. The texts are those in which sizes could matter to
// a pass; among the sizes there are 1 and many that coincide.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "analysis/plan/plan_cache.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/equal_plans.h"

namespace mica {
namespace {

// Sizes by the names that a text has for them: "b" for $b, "(bt)" for $(bt).
using Sizes = std::vector<std::pair<std::string, int64_t>>;

std::string Fill(absl::string_view text, const Sizes& sizes) {
  return absl::StrReplaceAll(text, [&] {
    std::vector<std::pair<std::string, std::string>> values;
    for (const auto& [name, size] : sizes) {
      values.emplace_back(absl::StrCat("$", name), absl::StrCat(size));
    }
    return values;
  }());
}

// Every choice of `choices` for each of `num_sizes`, in a random order that is
// the same each time; at most `limit`.
std::vector<std::vector<int64_t>> AllSizes(absl::Span<const int64_t> choices,
                                           int num_sizes, size_t limit) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (int i = 0; i < num_sizes; ++i) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& sizes : all) {
      for (int64_t choice : choices) {
        longer.push_back(sizes);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  std::mt19937_64 random(1);
  std::shuffle(all.begin(), all.end(), random);
  if (all.size() > limit) all.resize(limit);
  return all;
}

class StructureTest : public testing::Test {
 protected:
  // Plans the text in all sizes. Those that make no legal Program are left out.
  // Returns how many Plans were built by another's structure.
  int64_t PlanAll(absl::string_view text,
                  const std::vector<std::vector<int64_t>>& all,
                  const std::function<Sizes(absl::Span<const int64_t>)>& name,
                  const PlanOptions& options = {}) {
    PlanCache plans(AllOps(), AllKernels());
    std::vector<std::shared_ptr<const Plan>> kept;
    absl::Status illegal;
    for (const auto& sizes : all) {
      const std::string filled = Fill(text, name(sizes));
      absl::StatusOr<Program> parsed = ParseProgram(filled, AllOps());
      if (!parsed.ok()) {
        illegal = parsed.status();
        continue;
      }
      SCOPED_TRACE(filled);
      const auto program = std::make_shared<const Program>(*std::move(parsed));
      const int64_t before = plans.stats().by_structure;
      const auto plan = plans.Get(program, options);
      const auto alone = Plan::Build(program, AllOps(), AllKernels(), options);
      EXPECT_EQ(plan.status(), alone.status());
      if (!plan.ok() || !alone.ok()) continue;
      ExpectEqualPlan(**plan, **alone);
      if (plans.stats().by_structure > before) ExpectSameRun(*plan, *alone);
      kept.push_back(*plan);
      if (HasFailure()) return 0;
    }
    EXPECT_GT(kept.size(), all.size() / 100) << text << illegal;
    return plans.stats().by_structure;
  }
};

constexpr int64_t kSmall[] = {1, 2, 3, 4, 6};

TEST_F(StructureTest, ReshapedProductsWithBiasAndResidual) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$t,$h], %r: f32[$b,$t,$n]) {
  %w = variable "w" : f32[$n,$h]
  %c = variable "c" : f32[$n]
  %f = aten.view(%x, [$(bt),$h]) : f32[$(bt),$h]
  %a = aten.t(%w) : f32[$h,$n]{1,$h}
  %m = aten.mm(%f, %a) : f32[$(bt),$n]
  %v = aten.view(%m, [$b,$t,$n]) : f32[$b,$t,$n]
  %s = aten.add.Tensor(%v, %c) : f32[$b,$t,$n]
  %u = aten.relu(%s) : f32[$b,$t,$n]
  %y = aten.add.Tensor(%r, %u) : f32[$b,$t,$n]
  return %y
}
)";
  const int64_t shared =
      PlanAll(kText, AllSizes(kSmall, 4, 300), [](auto sizes) -> Sizes {
        return {{"(bt)", sizes[0] * sizes[1]},
                {"b", sizes[0]},
                {"t", sizes[1]},
                {"h", sizes[2]},
                {"n", sizes[3]}};
      });
  EXPECT_GT(shared, 20);
}

// A bias by one form, a row that is added to columns by coincidence in another.
TEST_F(StructureTest, WhatIsAddedMayBroadcast) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %r: f32[$p,$q], %c: f32[$v]) {
  %w = variable "w" : f32[$h,$n]
  %m = aten.mm(%x, %w) : f32[$b,$n]
  %s = aten.add.Tensor(%m, %r) : f32[$b,$n]
  %u = aten.tanh(%s) : f32[$b,$n]
  %d = aten.add.Tensor(%u, %c) : f32[$b,$n]
  %e = aten.mul.Tensor(%d, %u) : f32[$b,$n]
  return %e
}
)";
  constexpr int64_t kFew[] = {1, 2, 3};
  const int64_t shared =
      PlanAll(kText, AllSizes(kFew, 6, 729), [](auto sizes) -> Sizes {
        return {{"b", sizes[0]}, {"h", sizes[1]}, {"n", sizes[2]},
                {"p", sizes[3]}, {"q", sizes[4]}, {"v", sizes[5]}};
      });
  EXPECT_GT(shared, 5);
}

// A view whose target folds rows into columns: only some are a bias's columns.
TEST_F(StructureTest, TargetsOfReshapesMayCoincide) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %c: f32[$q]) {
  %w = variable "w" : f32[$h,$n]
  %m = aten.mm(%x, %w) : f32[$b,$n]
  %v = aten.view(%m, [$p,-1]) : f32[$p,$q]
  %s = aten.add.Tensor(%v, %c) : f32[$p,$q]
  %u = aten.relu(%s) : f32[$p,$q]
  %o = aten.view(%u, [$(bn)]) : f32[$(bn)]
  return %o
}
)";
  constexpr int64_t kEven[] = {1, 2, 4, 8, 16};
  const int64_t shared =
      PlanAll(kText, AllSizes(kEven, 4, 400), [](auto sizes) -> Sizes {
        const int64_t all = sizes[0] * sizes[2];
        return {{"(bn)", all},   {"b", sizes[0]}, {"h", sizes[1]},
                {"n", sizes[2]}, {"p", sizes[3]}, {"q", all / sizes[3]}};
      });
  EXPECT_GT(shared, 10);
}

// Windows by slices, indices and strides: offsets are numbers among arguments.
TEST_F(StructureTest, OffsetsOfViews) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h]) {
  %l = aten.slice.Tensor(%x, 1, $s, $e) : f32[$b,$(e-s)]{$h,1}
  %r = aten.slice.Tensor(%x, 1, $o, $(o+e-s)) : f32[$b,$(e-s)]{$h,1}
  %a = aten.relu(%l) : f32[$b,$(e-s)]
  %m = aten.sigmoid(%r) : f32[$b,$(e-s)]
  %k = aten.mul.Tensor(%a, %m) : f32[$b,$(e-s)]
  %w = aten.as_strided(%x, [$b,$(e-s)], [$h,1], $o) : f32[$b,$(e-s)]{$h,1}
  %y = aten.add.Tensor(%k, %w) : f32[$b,$(e-s)]
  %i = aten.select.int(%y, 0, $j) : f32[$(e-s)]
  %n = aten.neg(%i) : f32[$(e-s)]
  return %n, %y
}
)";
  const int64_t shared = PlanAll(
      kText, AllSizes({{0, 1, 2, 3, 5, 9}}, 5, 2000), [](auto sizes) -> Sizes {
        const int64_t length = sizes[3] - sizes[2];
        return {{"(e-s)", length}, {"(o+e-s)", sizes[4] + length},
                {"b", sizes[0]},   {"h", sizes[1]},
                {"s", sizes[2]},   {"e", sizes[3]},
                {"o", sizes[4]},   {"j", sizes[0] / 2}};
      });
  EXPECT_GT(shared, 10);
}

// Strides of each order, and of one that isn't dense.
TEST_F(StructureTest, StridesOfPermutedTensors) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$a,$b,$c]{$i,$j,$k}, %y: f32[$a,$b,$c]) {
  %w = variable "w" : f32[$c]
  %e = aten.exp(%x) : f32[$a,$b,$c]{$i,$j,$k}
  %s = aten.mul.Tensor(%e, %x) : f32[$a,$b,$c]{$i,$j,$k}
  %t = aten.add.Tensor(%s, %y) : f32[$a,$b,$c]
  %p = aten.permute(%t, [2,0,1]) : f32[$c,$a,$b]{1,$(bc),$c}
  %q = aten.relu(%p) : f32[$c,$a,$b]{1,$(bc),$c}
  %n, %m, %r = aten.native_layer_norm(%s, [$c], %w, none, 1e-5) : f32[$a,$b,$c], f32[$a,$b,1], f32[$a,$b,1]
  return %q, %n
}
)";
  const int64_t shared = PlanAll(
      kText, AllSizes({{0, 1, 2, 3, 4, 5}}, 4, 1296), [](auto sizes) -> Sizes {
        const int64_t a = sizes[0], b = sizes[1], c = sizes[2];
        Sizes strides;
        switch (sizes[3]) {
          case 0:
            strides = {{"i", 1}, {"j", a}, {"k", a * b}};
            break;
          case 1:
            strides = {{"i", 1}, {"j", a * c}, {"k", a}};
            break;
          case 2:
            strides = {{"i", b}, {"j", 1}, {"k", a * b}};
            break;
          case 3:
            strides = {{"i", c}, {"j", a * c}, {"k", 1}};
            break;
          default:
            strides = {{"i", b * c}, {"j", c}, {"k", 1}};
        }
        Sizes all = {{"(bc)", b * c}, {"a", a}, {"b", b}, {"c", c}};
        all.insert(all.end(), strides.begin(), strides.end());
        return all;
      });
  EXPECT_GT(shared, 10);
}

TEST_F(StructureTest, NormsOfSumsAndWidths) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %y: f32[$p,$h]) {
  %w = variable "w" : f32[$h]
  %c = variable "c" : f32[$h]
  %s = aten.add.Tensor(%x, %y) : f32[$b,$h]
  %n, %m, %r = aten.native_layer_norm(%s, [$h], %w, %c, 1e-5) : f32[$b,$h], f32[$b,1], f32[$b,1]
  %g = aten.gelu(%n) : f32[$b,$h]
  %z = aten.mul.Tensor(%g, %s) : f32[$b,$h]
  %v = aten.view(%z, [$(bh)]) : f32[$(bh)]
  return %v
}
)";
  const int64_t shared = PlanAll(kText, AllSizes({{0, 1, 2, 3, 5, 6}}, 3, 216),
                                 [](auto sizes) -> Sizes {
                                   return {{"(bh)", sizes[0] * sizes[1]},
                                           {"b", sizes[0]},
                                           {"h", sizes[1]},
                                           {"p", sizes[2]}};
                                 });
  EXPECT_GT(shared, 10);
}

TEST_F(StructureTest, ConvolutionsWithStridesPaddingAndGroups) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$c,$i,$i], %r: f32[$b,$o,$j,$j]) {
  %w = variable "w" : f32[$o,$(c/g),$k,$k]
  %g = variable "g" : f32[$o]
  %z = variable "z" : f32[$o]
  %m = variable "m" : f32[$o]
  %v = variable "v" : f32[$o]
  %y = aten.convolution(%x, %w, none, [$s,$s], [$p,$p], [1,1], false, [0,0], $g) : f32[$b,$o,$j,$j]
  %n, %1, %2 = aten._native_batch_norm_legit_no_training(%y, %g, %z, %m, %v, 0.1, 1e-5) : f32[$b,$o,$j,$j], f32[0], f32[0]
  %a = aten.add.Tensor(%n, %r) : f32[$b,$o,$j,$j]
  %u = aten.relu(%a) : f32[$b,$o,$j,$j]
  %t = aten.mul.Tensor(%u, %u) : f32[$b,$o,$j,$j]
  %h = aten.mean.dim(%t, [2,3]) : f32[$b,$o]
  return %h
}
)";
  for (bool frozen : {false, true}) {
    const int64_t shared = PlanAll(
        kText, AllSizes({{1, 2, 3, 4}}, 5, 250),
        [](auto sizes) -> Sizes {
          const int64_t c = 2 * sizes[1], g = sizes[2] < 3 ? sizes[2] : 1;
          const int64_t k = sizes[3], s = sizes[4], p = sizes[3] / 2, i = 9;
          return {{"(c/g)", c / g},
                  {"b", sizes[0]},
                  {"c", c},
                  {"g", g},
                  {"o", 4 * sizes[2]},
                  {"i", i},
                  {"k", k},
                  {"s", s},
                  {"p", p},
                  {"j", (i + 2 * p - k) / s + 1}};
        },
        {.frozen = frozen});
    EXPECT_GT(shared, 3);
  }
}

// A third of a row is a gate; of other sizes it is nothing.
TEST_F(StructureTest, GatesThatLieInThirdsOfRows) {
  constexpr absl::string_view kText =
      R"(program @p(%ig: f32[3,$b,$w], %hg: f32[$b,$w], %h: f32[$b,$n]) {
  %hr = aten.as_strided(%hg, [$b,$n], [$w,1], 0) : f32[$b,$n]{$w,1}
  %hz = aten.as_strided(%hg, [$b,$n], [$w,1], $o) : f32[$b,$n]{$w,1}
  %hn = aten.as_strided(%hg, [$b,$n], [$w,1], $q) : f32[$b,$n]{$w,1}
  %ir = aten.as_strided(%ig, [$b,$n], [$w,1], $(bw)) : f32[$b,$n]{$w,1}
  %iz = aten.as_strided(%ig, [$b,$n], [$w,1], $(bw+o)) : f32[$b,$n]{$w,1}
  %in = aten.as_strided(%ig, [$b,$n], [$w,1], $(bw+q)) : f32[$b,$n]{$w,1}
  %sr = aten.add.Tensor(%ir, %hr) : f32[$b,$n]
  %r = aten.sigmoid(%sr) : f32[$b,$n]
  %sz = aten.add.Tensor(%iz, %hz) : f32[$b,$n]
  %z = aten.sigmoid(%sz) : f32[$b,$n]
  %g = aten.mul.Tensor(%hn, %r) : f32[$b,$n]
  %sn = aten.add.Tensor(%in, %g) : f32[$b,$n]
  %t = aten.tanh(%sn) : f32[$b,$n]
  %d = aten.sub.Tensor(%h, %t) : f32[$b,$n]
  %m = aten.mul.Tensor(%d, %z) : f32[$b,$n]
  %y = aten.add.Tensor(%m, %t) : f32[$b,$n]
  return %y
}
)";
  PlanAll(kText, AllSizes({{2, 3, 4, 5}}, 4, 256), [](auto sizes) -> Sizes {
    const int64_t b = sizes[0], n = sizes[1];
    const int64_t w = sizes[2] == 5 ? 3 * n + 1 : 3 * n;
    const int64_t o = sizes[3] == 5 ? n + 1 : n, q = 2 * n;
    return {{"(bw)", b * w},
            {"(bw+o)", b * w + o},
            {"(bw+q)", b * w + q},
            {"b", b},
            {"w", w},
            {"n", n},
            {"o", o},
            {"q", q}};
  });
}

// What is written before it is read, at offsets that meet or don't.
TEST_F(StructureTest, WritesThatCoverReads) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$w], %y: f32[$b,$n]) {
  %s = aten.sigmoid(%y) : f32[$b,$n]
  %z = mica.scatter_view(%x, %s, [$b,$n], [$w,1], $o) : f32[$b,$w]
  %v = aten.as_strided(%z, [$b,$n], [$w,1], $q) : f32[$b,$n]{$w,1}
  %r = aten.relu(%v) : f32[$b,$n]
  return %r
}
)";
  PlanAll(kText, AllSizes({{0, 2, 3, 4, 5}}, 4, 400), [](auto sizes) -> Sizes {
    return {{"b", 3},
            {"w", sizes[0] + sizes[1]},
            {"n", sizes[1]},
            {"o", sizes[2]},
            {"q", sizes[3]}};
  });
}

// Numbers that are no sizes, though they are equal to some.
TEST_F(StructureTest, FactorsAndPowersAreNoSizes) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %y: f32[$b,$h]) {
  %f = constant $f : f64
  %c = constant splat $g : f32[$h]
  %p = aten.pow.Tensor_Scalar(%x, $e) : f32[$b,$h]
  %a = aten.add.Tensor(%p, %y, alpha=$h) : f32[$b,$h]
  %m = aten.mul.Tensor(%a, %f) : f32[$b,$h]
  %s = aten.add.Tensor(%m, %c) : f32[$b,$h]
  %k = aten.sum.dim_IntList(%s, [$d]) : f32[$r]
  return %k
}
)";
  const int64_t shared = PlanAll(
      kText, AllSizes({{0, 1, 2, 3}}, 5, 1024), [](auto sizes) -> Sizes {
        const int64_t b = sizes[0] + 1, h = sizes[1] + 2, d = sizes[2] % 2;
        return {
            {"b", b}, {"h", h},        {"e", sizes[3]},      {"f", sizes[4]},
            {"d", d}, {"g", sizes[2]}, {"r", d == 0 ? h : b}};
      });
  EXPECT_GT(shared, 10);
}

// A constant without dims may decide what is fused.
TEST_F(StructureTest, ConstantsOfAGeluThatIsSpeltOut) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h]) {
  %half = constant 0.5 : f64
  %cube = constant 0.044715 : f64
  %scale = constant 0.7978845608028654 : f64
  %one = constant $o : f64
  %h = aten.mul.Tensor(%x, %half) : f32[$b,$h]
  %p = aten.pow.Tensor_Scalar(%x, $e) : f32[$b,$h]
  %c = aten.mul.Tensor(%p, %cube) : f32[$b,$h]
  %s = aten.add.Tensor(%x, %c) : f32[$b,$h]
  %i = aten.mul.Tensor(%s, %scale) : f32[$b,$h]
  %t = aten.tanh(%i) : f32[$b,$h]
  %u = aten.add.Tensor(%t, %one) : f32[$b,$h]
  %y = aten.mul.Tensor(%h, %u) : f32[$b,$h]
  return %y
}
)";
  const int64_t shared =
      PlanAll(kText, AllSizes({{1, 2, 3}}, 4, 81), [](auto sizes) -> Sizes {
        return {
            {"b", sizes[0]}, {"h", sizes[1]}, {"o", sizes[2]}, {"e", sizes[3]}};
      });
  EXPECT_GT(shared, 3);
}

TEST_F(StructureTest, AttentionOfHeadsAndTokens) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$t,$(nd)]) {
  %w = variable "w" : f32[$(nd),$(nd)]
  %f = aten.view(%x, [$(bt),$(nd)]) : f32[$(bt),$(nd)]
  %m = aten.mm(%f, %w) : f32[$(bt),$(nd)]
  %v = aten.view(%m, [$b,$t,$n,$d]) : f32[$b,$t,$n,$d]
  %p = aten.permute(%v, [0,2,1,3]) : f32[$b,$n,$t,$d]{$(tnd),$d,$(nd),1}
  %q, %l = aten._scaled_dot_product_flash_attention_for_cpu(%p, %p, %p) : f32[$b,$n,$t,$d]{$(tnd),$d,$(nd),1}, f32[$b,$n,$t]
  %k = aten.permute(%q, [0,2,1,3]) : f32[$b,$t,$n,$d]
  %o = aten.view(%k, [$(bt),$(nd)]) : f32[$(bt),$(nd)]
  %y = aten.mm(%o, %w) : f32[$(bt),$(nd)]
  %s = aten.add.Tensor(%y, %f) : f32[$(bt),$(nd)]
  return %s
}
)";
  const int64_t shared = PlanAll(
      kText, AllSizes({{1, 2, 3, 4, 8}}, 4, 300), [](auto sizes) -> Sizes {
        const int64_t b = sizes[0], t = sizes[1], n = sizes[2], d = sizes[3];
        return {{"(tnd)", t * n * d},
                {"(bt)", b * t},
                {"(nd)", n * d},
                {"b", b},
                {"t", t},
                {"n", n},
                {"d", d}};
      });
  EXPECT_GT(shared, 10);
}

// Bodies of branches and loops hold sizes, too.
TEST_F(StructureTest, BodiesOfBranchesAndLoops) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %p: bool[], %i: i64[]) {
  %w = variable "w" : f32[$h,$h]
  %y = mica.if(%p, [%x, %w]) : f32[$b,$h]
    then(%x: f32[$b,$h], %w: f32[$h,$h]) {
      %0 = aten.mm(%x, %w) : f32[$b,$h]
      %1 = aten.relu(%0) : f32[$b,$h]
      return %1
    }
    else(%x: f32[$b,$h], %w: f32[$h,$h]) {
      %v = aten.view(%x, [$(bh)]) : f32[$(bh)]
      %s = aten.slice.Tensor(%v, 0, $o, $(bh)) : f32[$(bh-o)]
      %m = aten.sum(%s) : f32[]
      %0 = aten.mul.Tensor(%x, %m) : f32[$b,$h]
      return %0
    }
  %z, %j = mica.while([%y, %i], []) : f32[$b,$h], i64[]
    cond(%x: f32[$b,$h], %i: i64[]) {
      %p = aten.lt.Scalar(%i, $b) : bool[]
      return %p
    }
    body(%x: f32[$b,$h], %i: i64[]) {
      %n = aten.add.Scalar(%i, 1) : i64[]
      %a = aten.mul.Scalar(%x, $h) : f32[$b,$h]
      return %a, %n
    }
  return %z
}
)";
  PlanAll(kText, AllSizes({{0, 1, 2, 3, 5}}, 3, 125), [](auto sizes) -> Sizes {
    const int64_t all = sizes[0] * sizes[1];
    return {{"(bh-o)", all - sizes[2]},
            {"(bh)", all},
            {"b", sizes[0]},
            {"h", sizes[1]},
            {"o", sizes[2]}};
  });
}

// What is fused in bodies, what constants they hold, what they carry.
TEST_F(StructureTest, BodiesWithProductsAndConstants) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %r: f32[$b,$n], %p: bool[]) {
  %w = variable "w" : f32[$h,$n]
  %c = variable "c" : f32[$n]
  %unread, %y = mica.if(%p, [%x, %w, %c, %r]) : f32[$b,$h], f32[$b,$n]
    then(%x: f32[$b,$h], %w: f32[$h,$n], %c: f32[$n], %r: f32[$b,$n]) {
      %k = constant splat 0.5 : f32[$b,$n]
      %m = aten.addmm(%c, %x, %w) : f32[$b,$n]
      %u = aten.relu(%m) : f32[$b,$n]
      %s = aten.mul.Tensor(%u, %k) : f32[$b,$n]
      %t = aten.add.Tensor(%s, %r) : f32[$b,$n]
      %e = aten.exp(%x) : f32[$b,$h]
      return %e, %t
    }
    else(%x: f32[$b,$h], %w: f32[$h,$n], %c: f32[$n], %r: f32[$b,$n]) {
      %s = aten.sum.dim_IntList(%x, [1], true) : f32[$b,1]
      %e = aten.expand(%s, [$b,$n]) : f32[$b,$n]{1,0}
      %t = aten.tanh(%e) : f32[$b,$n]
      %a = aten.add.Tensor(%t, %c) : f32[$b,$n]
      return %x, %a
    }
  %i = constant [0] : i64[]
  %z, %j = mica.while([%y, %i], [%r]) : f32[$b,$n], i64[]
    cond(%x: f32[$b,$n], %i: i64[], %r: f32[$b,$n]) {
      %p = aten.lt.Scalar(%i, 3) : bool[]
      return %p
    }
    body(%x: f32[$b,$n], %i: i64[], %r: f32[$b,$n]) {
      %n = aten.add.Scalar(%i, 1) : i64[]
      %v = aten.view(%x, [$(bn)]) : f32[$(bn)]
      %q = aten.slice.Tensor(%v, 0, 0, $n) : f32[$n]
      %a = aten.add.Tensor(%r, %q) : f32[$b,$n]
      %t = aten.tanh(%a) : f32[$b,$n]
      return %t, %n
    }
  %o = aten.add.Tensor(%z, %c) : f32[$b,$n]
  return %o
}
)";
  const int64_t shared = PlanAll(kText, AllSizes({{1, 2, 3, 4, 6}}, 3, 125),
                                 [](auto sizes) -> Sizes {
                                   return {{"(bn)", sizes[0] * sizes[2]},
                                           {"b", sizes[0]},
                                           {"h", sizes[1]},
                                           {"n", sizes[2]}};
                                 });
  EXPECT_GT(shared, 20);
}

// Layouts are chosen for each size in bodies, too.
TEST_F(StructureTest, ConvolutionsInBodies) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$c,$i,$i], %p: bool[]) {
  %w = variable "w" : f32[$o,$c,3,3]
  %y = mica.if(%p, [%x, %w]) : f32[$b,$o,$i,$i]
    then(%x: f32[$b,$c,$i,$i], %w: f32[$o,$c,3,3]) {
      %y = aten.convolution(%x, %w, none, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[$b,$o,$i,$i]
      %u = aten.relu(%y) : f32[$b,$o,$i,$i]
      %t = aten.mul.Tensor(%u, %u) : f32[$b,$o,$i,$i]
      return %t
    }
    else(%x: f32[$b,$c,$i,$i], %w: f32[$o,$c,3,3]) {
      %y = aten.convolution(%x, %w, none, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[$b,$o,$i,$i]
      return %y
    }
  %h = aten.mean.dim(%y, [2,3]) : f32[$b,$o]
  return %h
}
)";
  const int64_t shared = PlanAll(kText, AllSizes({{1, 2, 4, 5, 8}}, 4, 300),
                                 [](auto sizes) -> Sizes {
                                   return {{"b", sizes[0]},
                                           {"c", sizes[1]},
                                           {"i", sizes[2]},
                                           {"o", 2 * sizes[3]}};
                                 });
  EXPECT_GT(shared, 20);
}

// Parts of one tensor and what becomes of them, by a size among arguments.
TEST_F(StructureTest, PartsThatAreJoined) {
  constexpr absl::string_view kText =
      R"(program @p(%x: f32[$b,$h], %y: f32[$b,$n]) {
  %c = aten.cat([%x, %y], 1) : f32[$b,$(h+n)]
  %e = aten.expand(%c, [$k,$b,$(h+n)]) : f32[$k,$b,$(h+n)]{0,$(h+n),1}
  %r = aten.relu(%e) : f32[$k,$b,$(h+n)]
  %s = aten.mul.Tensor(%r, %r) : f32[$k,$b,$(h+n)]
  %l = aten.slice.Tensor(%s, 2, 0, $h) : f32[$k,$b,$h]{$(b(h+n)),$(h+n),1}
  %q = aten.slice.Tensor(%s, 2, $h, $(h+n)) : f32[$k,$b,$n]{$(b(h+n)),$(h+n),1}
  %u = aten.sum.dim_IntList(%l, [0]) : f32[$b,$h]
  %m = aten.add.Tensor(%u, %x) : f32[$b,$h]
  %o = aten.add.Tensor(%q, %y) : f32[$k,$b,$n]
  return %m, %o
}
)";
  const int64_t shared = PlanAll(
      kText, AllSizes({{1, 2, 3, 4, 6}}, 4, 400), [](auto sizes) -> Sizes {
        const int64_t b = sizes[0], h = sizes[1], n = sizes[2];
        return {{"(b(h+n))", b * (h + n)},
                {"(h+n)", h + n},
                {"b", b},
                {"h", h},
                {"n", n},
                {"k", sizes[3]}};
      });
  EXPECT_GT(shared, 10);
}

}  // namespace
}  // namespace mica
