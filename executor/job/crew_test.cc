#include "executor/job/crew.h"

#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "framework/base/test_matchers.h"

namespace mica {
namespace {

TEST(CrewTest, EachDoesItsPieceEachTime) {
  for (const int size : {1, 2, 5}) {
    Crew crew(size);
    std::vector<int> calls(size, 0);
    for (int round = 0; round < 1000; ++round) {
      MICA_ASSERT_OK(crew.Run([&](int i) { ++calls[i]; }));
    }
    EXPECT_EQ(calls, std::vector<int>(size, 1000));
  }
}

TEST(CrewTest, SleepsAndWakes) {
  Crew crew(3);
  std::atomic<int> calls = 0;
  for (int round = 0; round < 5; ++round) {
    usleep(20'000);
    MICA_ASSERT_OK(crew.Run([&](int) { ++calls; }));
  }
  EXPECT_EQ(calls, 15);
}

TEST(CrewTest, IsRefusedInAFork) {
  Crew crew(2);
  MICA_ASSERT_OK(crew.Run([](int) {}));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const absl::Status status = crew.Run([](int) {});
    _exit(status.code() == absl::StatusCode::kFailedPrecondition ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
}

}  // namespace
}  // namespace mica
