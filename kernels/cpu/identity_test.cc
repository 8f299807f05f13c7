#include "kernels/cpu/identity.h"

#include "gmock/gmock.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

TEST(IdentityTest, NamesTheBuildAndTheLibraries) {
  EXPECT_THAT(CodeIdentity(), ContainsRegex("mica [0-9a-f]{16}"));
  EXPECT_THAT(CodeIdentity(), HasSubstr("onednn "));
}

TEST(IdentityTest, NamesTheInstructionsThatAreUsed) {
  EXPECT_THAT(CpuIdentity(), HasSubstr(Simd().name));
}

}  // namespace
}  // namespace mica::cpu
