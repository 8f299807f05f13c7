#include "analysis/plan/plan_store.h"

#include <sys/stat.h>
#include <sys/time.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::HasSubstr;

class PlanStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "mica_store_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<PlanStore> Open(int64_t max_bytes = 1000) {
    auto store = PlanStore::Open(folder_ + "/a/b", max_bytes);
    EXPECT_THAT(store, IsOk());
    return *std::move(store);
  }
  // Sets when an entry was last used, in seconds before now.
  void Age(const PlanStore& store, const Fingerprint& key, int seconds) {
    const std::string path = store.folder() + "/" + key.ToHex() + ".plan";
    const timeval time = {.tv_sec = std::time(nullptr) - seconds};
    const timeval times[] = {time, time};
    ASSERT_EQ(utimes(path.c_str(), times), 0);
  }

  std::string folder_;
  const Fingerprint a_{.low = 1}, b_{.low = 2}, c_{.low = 3};
};

TEST_F(PlanStoreTest, GivesBackWhatItGot) {
  const auto store = Open();
  EXPECT_THAT(store->Read(a_).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  MICA_ASSERT_OK(store->Write(a_, "first"));
  MICA_ASSERT_OK(store->Write(a_, "second"));
  MICA_ASSERT_OK_AND_ASSIGN(const std::string bytes, Open()->Read(a_));
  EXPECT_EQ(bytes, "second");
}

TEST_F(PlanStoreTest, IsItsOwnersAlone) {
  struct stat info;
  ASSERT_EQ(stat(Open()->folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(PlanStoreTest, RefusesAFolderThatOthersCanWrite) {
  const std::string folder = Open()->folder();
  for (const mode_t mode : {0770, 0702, 0777, 01777}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    EXPECT_THAT(PlanStore::Open(folder).status(),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr("others can write it")));
  }
}

TEST_F(PlanStoreTest, RefusesAFolderThatBecomesOthers) {
  const auto store = Open();
  ASSERT_EQ(chmod(store->folder().c_str(), 0777), 0);
  EXPECT_THAT(store->Write(a_, "x"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("")));
}

TEST_F(PlanStoreTest, RefusesALinkAndAFile) {
  const std::string folder = Open()->folder();
  const std::string link = folder_ + "/link";
  std::filesystem::create_symlink(folder, link);
  EXPECT_THAT(PlanStore::Open(link).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("")));
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "x";
  EXPECT_FALSE(PlanStore::Open(file).ok());
  EXPECT_FALSE(PlanStore::Open(file + "/below").ok());
}

TEST_F(PlanStoreTest, MakesRoomByTheLeastLatelyUsed) {
  const auto store = Open();
  MICA_ASSERT_OK(store->Write(a_, std::string(400, 'a')));
  MICA_ASSERT_OK(store->Write(b_, std::string(400, 'b')));
  Age(*store, a_, 20);
  Age(*store, b_, 10);
  MICA_ASSERT_OK(store->Read(a_).status());  // Now b is the older one.
  MICA_ASSERT_OK(store->Write(c_, std::string(400, 'c')));
  MICA_EXPECT_OK(store->Read(a_).status());
  EXPECT_THAT(store->Read(b_).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  MICA_EXPECT_OK(store->Read(c_).status());
  EXPECT_THAT(store->Write(b_, std::string(1001, 'b')),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("")));
  MICA_ASSERT_OK_AND_ASSIGN(const int64_t freed, store->Prune(0));
  EXPECT_EQ(freed, 800);
  MICA_ASSERT_OK_AND_ASSIGN(const auto entries, store->List());
  EXPECT_TRUE(entries.empty());
}

TEST_F(PlanStoreTest, LeavesForeignFilesAlone) {
  const auto store = Open();
  const std::string file = store->folder() + "/notes.plan";
  std::ofstream(file) << "mine";
  MICA_ASSERT_OK_AND_ASSIGN(const auto entries, store->List());
  EXPECT_TRUE(entries.empty());
  MICA_ASSERT_OK(store->Prune(0).status());
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(PlanStoreTest, StaysNearItsBoundHoweverManyAreWritten) {
  constexpr int64_t kBound = 64'000;
  const auto store = Open(kBound);
  for (uint64_t i = 1; i <= 1000; ++i) {
    MICA_ASSERT_OK(store->Write({.low = i}, std::string(200, 'x')));
  }
  MICA_ASSERT_OK_AND_ASSIGN(const auto entries, store->List());
  const auto bytes = static_cast<int64_t>(entries.size()) * 200;
  EXPECT_GE(bytes, kBound - 200);
  EXPECT_LE(bytes, kBound + kBound / 64);
}

TEST_F(PlanStoreTest, WritersAtOnceLeaveWholeEntries) {
  const auto store = Open(/*max_bytes=*/100'000);
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 50; ++i) {
        MICA_EXPECT_OK(store->Write(a_, std::string(1000, letter)));
        MICA_ASSERT_OK_AND_ASSIGN(const std::string got, store->Read(a_));
        EXPECT_EQ(got, std::string(1000, got[0]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mica
