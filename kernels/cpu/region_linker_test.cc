#include "kernels/cpu/region_linker.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/test_matchers.h"
#include "gtest/gtest.h"
#include "kernels/region/loop_table.h"

namespace mica::cpu {
namespace {

using testing::HasSubstr;

// An image of 8 bytes of code, and a table that ends with a number of loops.
CodeImage ImageOf(const std::vector<uint64_t>& ids, uint64_t count) {
  std::string bytes(8, '\xc3');
  for (const uint64_t id : ids) {
    bytes.append(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  return {.bytes = std::move(bytes), .entry = 0};
}

void OneLoop(const void* const*, void*, int64_t) {}

TEST(RegionLinkerTest, PutsAddressesInTheTable) {
  auto loops = std::make_unique<RegionLoops>();
  loops->ops[static_cast<int>(RegionOpId::kSin)]
            [static_cast<int>(TileKind::kF64)] = OneLoop;
  const uint64_t id = region::LoopId(RegionOpId::kSin, DType::kF64);
  MICA_ASSERT_OK_AND_ASSIGN(const MachineCode code,
                            LoadRegionCode(ImageOf({id}, 1), loops.get()));
  TileFn loop = nullptr;
  std::memcpy(&loop, code.entry<const char*>() + 8, sizeof(loop));
  EXPECT_EQ(loop, OneLoop);
}

TEST(RegionLinkerTest, WantsALoopThatIsThere) {
  const auto loops = std::make_unique<RegionLoops>();
  const uint64_t id = region::LoopId(RegionOpId::kSin, DType::kF32);
  for (const RegionLoops* none :
       {loops.get(), static_cast<RegionLoops*>(nullptr)}) {
    EXPECT_THAT(LoadRegionCode(ImageOf({id}, 1), none).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("isn't at hand")));
  }
  MICA_EXPECT_OK(LoadRegionCode(ImageOf({}, 0), nullptr).status());
}

TEST(RegionLinkerTest, RefusesWhatIsNoTable) {
  for (const CodeImage& image : {CodeImage{.bytes = "1234567"}, ImageOf({}, 9),
                                 ImageOf({region::kNumLoopIds}, 1)}) {
    EXPECT_TRUE(absl::IsDataLoss(LoadRegionCode(image, nullptr).status()));
  }
}

}  // namespace
}  // namespace mica::cpu
