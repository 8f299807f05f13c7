// Walks the registries: every op has a reference kernel that runs, every fast
// kernel agrees with it.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/control_flow.h"
#include "framework/kernel/kernel_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/one_op.h"

namespace mica {
namespace {

using ::testing::HasSubstr;

// Kernels by dtype as selection finds them.
KernelKey KeyOf(const Case& c) {
  const KernelRequest request = MakeRequest(c, {});
  return {.op = c.op().def->name(),
          .dtype = request.operands.empty() ? request.results[0].type.dtype
                                            : request.operands[0].type.dtype};
}

// Terms of the longest sum in the case: what errors grow with.
double ScaleOf(const Case& c) {
  double scale = 1;
  for (const Operand& operand : MakeRequest(c, {}).operands) {
    for (Dim dim : operand.type.dims) {
      scale = std::max(scale, static_cast<double>(dim));
    }
  }
  return scale;
}

bool IsEmptyFactory(const OpDef& def) {
  return absl::StrContains(def.name(), "empty");
}

class ConformanceTest : public testing::TestWithParam<const OpDef*> {
 protected:
  // The legal cases of the op; listed ones must all be, in other dtypes they
  // need not.
  std::vector<Case> LegalCases() {
    const OpDef& def = *GetParam();
    std::vector<Case> cases;
    const bool is_generated = def.is_elementwise();
    for (const std::string& text :
         is_generated ? PointwiseCases(def) : ListedCases(def)) {
      absl::StatusOr<Case> c = ParseCase(text, AllOps());
      if (c.ok()) {
        cases.push_back(*std::move(c));
      } else if (!is_generated) {
        ADD_FAILURE() << c.status();
      }
    }
    if (is_generated) return cases;
    for (const std::string& text : ListedCases(def)) {
      for (absl::string_view tensor :
           {"f64[", "bf16[", "f16[", "i64[", "bool["}) {
        const std::string other = absl::StrReplaceAll(text, {{"f32[", tensor}});
        absl::StatusOr<Case> c = ParseCase(other, AllOps());
        if (other != text && c.ok()) cases.push_back(*std::move(c));
      }
    }
    return cases;
  }

  // The reference's results for `operands`; empty where it fails, as it does
  // on a division by zero.
  absl::StatusOr<std::vector<Tensor>> RunReference(const Case& c,
                                                   const Operands& operands) {
    const Kernel* reference = AllKernels().FindReference(KeyOf(c));
    if (reference == nullptr) {
      return absl::NotFoundError(absl::StrCat("no reference for ", c.text));
    }
    return RunKernel(*reference, c, operands, {});
  }

  void ExpectSame(const Kernel& kernel, const Case& c, const Operands& operands,
                  const RunOptions& options, const std::vector<Tensor>& want) {
    const auto got = RunKernel(kernel, c, operands, options);
    if (absl::IsFailedPrecondition(got.status())) return;
    ASSERT_TRUE(got.ok()) << kernel.name << " on " << c.text << ": "
                          << got.status();
    for (size_t i = 0; i < want.size(); ++i) {
      if ((*got)[i].data() == nullptr) continue;
      EXPECT_EQ(CompareTensors((*got)[i].view(), want[i].view(), ScaleOf(c)),
                "")
          << kernel.name << " on " << c.text << ", result " << i;
    }
    ++num_compared_[kernel.name];
  }

  std::map<std::string, int> num_compared_;
};

TEST_P(ConformanceTest, ReferenceRunsWhatIsLegal) {
  const std::vector<Case> cases = LegalCases();
  ASSERT_FALSE(cases.empty()) << "no case for " << GetParam()->name();
  for (const Case& c : cases) {
    MICA_ASSERT_OK_AND_ASSIGN(Operands operands, DrawOperands(c, 1, false));
    const auto results = RunReference(c, operands);
    if (!results.ok()) {
      EXPECT_THAT(std::string(results.status().message()),
                  HasSubstr("ZeroDivisionError"))
          << c.text;
    }
  }
}

TEST_P(ConformanceTest, ReferenceFillsResultsOfAnyStrides) {
  if (IsEmptyFactory(*GetParam())) GTEST_SKIP() << "any contents are right";
  for (const Case& c : LegalCases()) {
    MICA_ASSERT_OK_AND_ASSIGN(Operands operands, DrawOperands(c, 2, true));
    const auto want = RunReference(c, operands);
    if (!want.ok()) continue;
    const Kernel& reference = *AllKernels().FindReference(KeyOf(c));
    ExpectSame(reference, c, operands, {.transposes_results = true}, *want);
    for (int i = 0; i < GetParam()->num_results(); ++i) {
      ExpectSame(reference, c, operands, {.unused_result = i}, *want);
    }
  }
}

TEST_P(ConformanceTest, FastKernelsAgreeWithTheReference) {
  if (IsEmptyFactory(*GetParam())) GTEST_SKIP() << "any contents are right";
  std::map<std::string, bool> fast;
  for (const Case& c : LegalCases()) {
    for (uint32_t seed : {1u, 2u}) {
      const bool has_specials = seed == 2 && GetParam()->is_elementwise();
      MICA_ASSERT_OK_AND_ASSIGN(Operands operands,
                                DrawOperands(c, seed, has_specials));
      const auto want = RunReference(c, operands);
      if (!want.ok()) continue;
      for (const Kernel& kernel : AllKernels().Find(KeyOf(c))) {
        if (absl::StartsWith(kernel.name, "reference.")) continue;
        fast[kernel.name] = true;
        ExpectSame(kernel, c, operands, {}, *want);
        ExpectSame(kernel, c, operands, {.num_threads = 2}, *want);
        ExpectSame(kernel, c, operands, {.freezes_operands = true}, *want);
        ExpectSame(kernel, c, operands, {.shares_bytes = true}, *want);
        for (const int num_threads : {1, 2}) {
          ExpectSame(kernel, c, operands,
                     {.num_threads = num_threads,
                      .freezes_operands = true,
                      .shares_bytes = true,
                      .puts_channels_last = true},
                     *want);
        }
        ExpectSame(kernel, c, operands, {.transposes_results = true}, *want);
        for (int i = 1; i < GetParam()->num_results(); ++i) {
          ExpectSame(kernel, c, operands, {.unused_result = i}, *want);
        }
      }
    }
  }
  for (const auto& [name, is_registered] : fast) {
    EXPECT_GT(num_compared_[name], 0)
        << name << " takes none of the cases of " << GetParam()->name();
  }
}

std::vector<const OpDef*> OpsWithKernels() {
  std::vector<const OpDef*> ops;
  for (const OpDef* def : AllOps().All()) {
    const bool has_bodies = ControlKindOf(*def) != ControlKind::kNone;
    // Segments run others in place of those whose size depends on data.
    if (!def->is_view() && !has_bodies && !def->is_bounded()) {
      ops.push_back(def);
    }
  }
  return ops;
}

std::string TestName(const testing::TestParamInfo<const OpDef*>& info) {
  std::string name = info.param->name();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllOps, ConformanceTest,
                         testing::ValuesIn(OpsWithKernels()), TestName);

TEST(RegistryTest, EveryOpHasAReferenceForEveryDType) {
  for (const OpDef* def : OpsWithKernels()) {
    for (int i = 0; i < kNumRealDTypes; ++i) {
      const KernelKey key = {.op = def->name(), .dtype = static_cast<DType>(i)};
      EXPECT_NE(AllKernels().FindReference(key), nullptr) << key.ToString();
    }
  }
}

TEST(RegistryTest, EveryKernelHasAnOp) {
  for (const KernelKey& key : AllKernels().Keys()) {
    EXPECT_NE(AllOps().Find(key.op), nullptr) << key.ToString();
  }
}

TEST(RegistryTest, EveryOpSaysWhatItDoes) {
  for (const OpDef* def : AllOps().All()) {
    EXPECT_FALSE(def->doc().empty()) << def->name();
    EXPECT_TRUE(def->is_view() || def->infer() != nullptr ||
                ControlKindOf(*def) != ControlKind::kNone)
        << def->name();
  }
}

}  // namespace
}  // namespace mica
