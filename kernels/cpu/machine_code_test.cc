#include "kernels/cpu/machine_code.h"

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"

namespace mica::cpu {
namespace {

using testing::HasSubstr;

#if defined(__x86_64__)

// int f(): nop; mov eax, 42; ret.
const std::string kCode("\x90\xb8\x2a\x00\x00\x00\xc3", 7);

TEST(MachineCodeTest, RunsFromItsEntry) {
  for (int64_t entry : {0, 1}) {
    MICA_ASSERT_OK_AND_ASSIGN(const MachineCode code,
                              MachineCode::Load(kCode, entry));
    EXPECT_EQ(code.entry<int (*)()>()(), 42);
  }
}

TEST(MachineCodeTest, MovesWithItsPages) {
  MICA_ASSERT_OK_AND_ASSIGN(MachineCode code, MachineCode::Load(kCode, 0));
  MachineCode other;
  other = std::move(code);
  const MachineCode last(std::move(other));
  EXPECT_EQ(last.entry<int (*)()>()(), 42);
}

TEST(MachineCodeTest, IsNeverWritableAndExecutable) {
  MICA_ASSERT_OK_AND_ASSIGN(const MachineCode code,
                            MachineCode::Load(kCode, 0));
  const auto address = reinterpret_cast<uintptr_t>(code.entry<int (*)()>());
  std::ifstream maps("/proc/self/maps");
  std::string line;
  bool is_found = false;
  while (std::getline(maps, line)) {
    if (!line.starts_with(absl::StrCat(absl::Hex(address)))) continue;
    is_found = true;
    EXPECT_THAT(line, HasSubstr(" r-xp "));
  }
  EXPECT_TRUE(is_found);
}

#endif

TEST(MachineCodeTest, WantsItsEntryInside) {
  for (int64_t entry : {-1, 7, 8}) {
    EXPECT_THAT(MachineCode::Load("1234567", entry).status(),
                StatusIs(kInvalid, HasSubstr("wants an entry in 7 bytes")));
  }
  EXPECT_THAT(MachineCode::Load("", 0).status(),
              StatusIs(kInvalid, HasSubstr("")));
}

}  // namespace
}  // namespace mica::cpu
