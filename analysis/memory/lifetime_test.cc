#include "analysis/memory/lifetime.h"

#include <vector>

#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::HasSubstr;

const std::vector<Lifetime>& Three() {
  static const auto& lifetimes =
      *new std::vector<Lifetime>{{.first = 0, .last = 2, .bytes = 8},
                                 {.first = 2, .last = 4, .bytes = 8},
                                 {.first = 3, .last = 4, .bytes = 8}};
  return lifetimes;
}

TEST(CheckOffsetsTest, TakesBytesThatAreReusedAfterTheEnd) {
  MICA_EXPECT_OK(CheckOffsets(Three(), {0, 8, 0}, 16, 8));
}

TEST(CheckOffsetsTest, FindsWhatIsWrong) {
  const auto expect = [](std::vector<int64_t> offsets, int64_t arena_bytes,
                         absl::string_view message) {
    EXPECT_THAT(
        CheckOffsets(Three(), offsets, arena_bytes, 4),
        StatusIs(absl::StatusCode::kInternal, HasSubstr(std::string(message))));
  };
  expect({0, 8}, 16, "3 lifetimes, 2 offsets");
  expect({0, 4, 16}, 24,
         "lifetime 1 (steps 2 to 4, bytes 4 to 12) overlaps lifetime 0");
  expect({4, 0, 16}, 24, "lifetime 1 (steps 2 to 4, bytes 0 to 8) overlaps");
  expect({8, 8, 0}, 16, "lifetime 1");
  expect({0, 8, 12}, 24, "lifetime 2 (steps 3 to 4, bytes 12 to 20)");
  expect({0, 10, 0}, 24, "wants a multiple of 4");
  expect({0, 8, 0}, 15, "within 15");
  expect({-4, 8, 0}, 16, "lifetime 0");
}

}  // namespace
}  // namespace mica
