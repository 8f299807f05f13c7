#include "framework/base/offload.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// On a disk, as the build folder is; /tmp may be in memory.
constexpr char kHere[] = ".";

// Memory of whole pages that differ from each other.
class OffloadTest : public testing::Test {
 protected:
  static constexpr int64_t kPages = 64;

  void SetUp() override {
    page_ = ::sysconf(_SC_PAGESIZE);
    void* data = nullptr;
    ASSERT_EQ(::posix_memalign(&data, page_, kPages * page_), 0);
    memory_ = {static_cast<char*>(data), kPages * page_};
    for (int64_t i = 0; i < memory_.bytes; ++i) memory_.data[i] = Byte(i);
  }
  void TearDown() override { std::free(memory_.data); }

  char Byte(int64_t at) const {
    return static_cast<char>(at * 7 + at / page_ * 13);
  }
  bool IsWhole() const {
    for (int64_t i = 0; i < memory_.bytes; ++i) {
      if (memory_.data[i] != Byte(i)) return false;
    }
    return true;
  }
  // How many of its pages have memory of this process's.
  int64_t NumResident() const {
    int64_t count = 0;
    const int file = ::open("/proc/self/pagemap", O_RDONLY);
    const absl::Cleanup close = [file] { ::close(file); };
    for (int64_t i = 0; i < kPages; ++i) {
      uint64_t entry = 0;
      const auto address = reinterpret_cast<uintptr_t>(memory_.data);
      EXPECT_EQ(::pread(file, &entry, sizeof entry,
                        (address / page_ + i) * sizeof entry),
                sizeof entry);
      count += entry >> 63;
    }
    return count;
  }

  int64_t page_ = 0;
  MemoryRange memory_;
};

TEST_F(OffloadTest, LeavesNoPageInMemoryAndGivesEachBackWhenItIsRead) {
  ASSERT_EQ(NumResident(), kPages);
  MICA_ASSERT_OK(OffloadPages({memory_}, kHere));
  EXPECT_EQ(NumResident(), 0);
  EXPECT_TRUE(IsWhole());
  EXPECT_EQ(NumResident(), kPages);
  EXPECT_TRUE(DiscardOffloadedPages({memory_}));
}

TEST_F(OffloadTest, KeepsWhatIsWrittenLaterThoughPagesAreDropped) {
  MICA_ASSERT_OK(OffloadPages({memory_}, kHere));
  memory_.data[5 * page_ + 1] = 'x';
  DropPages({memory_});
  EXPECT_EQ(memory_.data[5 * page_ + 1], 'x');
  memory_.data[5 * page_ + 1] = Byte(5 * page_ + 1);
  EXPECT_TRUE(IsWhole());
  // And again, with what was written.
  memory_.data[7 * page_] = 'y';
  MICA_ASSERT_OK(OffloadPages({memory_}, kHere));
  EXPECT_EQ(NumResident(), 0);
  EXPECT_EQ(memory_.data[7 * page_], 'y');
  EXPECT_TRUE(DiscardOffloadedPages({memory_}));
}

TEST_F(OffloadTest, IsReadByAForkedProcessWhichWritesForItselfAlone) {
  MICA_ASSERT_OK(OffloadPages({memory_}, kHere));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_whole = IsWhole();
    std::memset(memory_.data, 0, memory_.bytes);
    ::_exit(is_whole ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(IsWhole());
  EXPECT_TRUE(DiscardOffloadedPages({memory_}));
}

TEST_F(OffloadTest, IsReadByASystemCall) {
  MICA_ASSERT_OK(OffloadPages({memory_}, kHere));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], memory_.data + 3 * page_, page_), page_);
  std::vector<char> got(page_);
  EXPECT_EQ(::read(ends[0], got.data(), page_), page_);
  EXPECT_EQ(std::memcmp(got.data(), memory_.data + 3 * page_, page_), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_TRUE(DiscardOffloadedPages({memory_}));
}

TEST_F(OffloadTest, MakesPlainMemoryOfDiscardedPages) {
  MICA_ASSERT_OK(OffloadPages({memory_}, kHere));
  EXPECT_TRUE(DiscardOffloadedPages({memory_}));
  EXPECT_EQ(NumResident(), 0);
  std::memset(memory_.data, 1, memory_.bytes);
  EXPECT_EQ(NumResident(), kPages);
}

TEST_F(OffloadTest, LeavesAllAsItIsWhereThereIsNoDisk) {
  EXPECT_THAT(OffloadPages({memory_}, "/dev/shm"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("/dev/shm is in memory itself")));
  EXPECT_THAT(OffloadPages({memory_}, "/nowhere"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
  EXPECT_EQ(NumResident(), kPages);
  EXPECT_TRUE(IsWhole());
}

TEST_F(OffloadTest, TakesWholePagesBetweenWhatIsKept) {
  const auto at = [&](int64_t page, int64_t byte, int64_t bytes) {
    return MemoryRange{memory_.data + page * page_ + byte, bytes};
  };
  EXPECT_THAT(WholePages(at(0, 1, page_), {}), IsEmpty());
  EXPECT_THAT(WholePages(at(0, 1, 2 * page_), {}),
              testing::ElementsAre(at(1, 0, page_)));
  EXPECT_THAT(
      WholePages(memory_, {at(0, 0, 16), at(3, page_ - 8, 16), at(5, 0, 1)}),
      testing::ElementsAre(at(1, 0, 2 * page_),
                           at(6, 0, (kPages - 6) * page_)));
  EXPECT_THAT(WholePages(at(1, 0, 2 * page_), {at(1, 0, 2 * page_)}),
              IsEmpty());
}

}  // namespace
}  // namespace mica
