// Walks the registries: every op has a reference kernel that runs, every fast
// kernel agrees with it.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "framework/base/environment.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/control_flow.h"
#include "framework/kernel/kernel_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "kernels/cpu/simd_table.h"
#include "ops/all.h"
#include "tests/conformance/legal_cases.h"
#include "tests/conformance/one_op.h"

namespace mica {
namespace {

using ::testing::HasSubstr;

class ConformanceTest : public testing::TestWithParam<const OpDef*> {
 protected:
  std::vector<Case> AllCases() {
    std::vector<absl::Status> illegal;
    std::vector<Case> cases = LegalCases(*GetParam(), &illegal);
    for (const absl::Status& status : illegal) ADD_FAILURE() << status;
    return cases;
  }

  void ExpectSame(const Kernel& kernel, const Case& c, const Operands& operands,
                  const RunOptions& options, const std::vector<Tensor>& want) {
    const auto got = RunKernel(kernel, c, operands, options);
    if (absl::IsFailedPrecondition(got.status())) {
      reasons_[kernel.name].emplace(got.status().message());
      return;
    }
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

  // A library may have nothing for processors with less than AVX-512, if it
  // says so: then other kernels run.
  bool IsLeftOut(const std::string& kernel) {
    if (cpu::SimdV4() != nullptr &&
        EnvironmentVariable("ONEDNN_MAX_CPU_ISA").empty())
      return false;
    return std::any_of(reasons_[kernel].begin(), reasons_[kernel].end(),
                       [](const std::string& why) {
                         return absl::StartsWith(why, "onednn:");
                       });
  }

  std::map<std::string, int> num_compared_;
  std::map<std::string, std::set<std::string>> reasons_;
};

TEST_P(ConformanceTest, ReferenceRunsWhatIsLegal) {
  const std::vector<Case> cases = AllCases();
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
  for (const Case& c : AllCases()) {
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
  for (const Case& c : AllCases()) {
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
    EXPECT_TRUE(num_compared_[name] > 0 || IsLeftOut(name))
        << name << " takes none of the cases of " << GetParam()->name() << ": "
        << absl::StrJoin(reasons_[name], "; ");
  }
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
