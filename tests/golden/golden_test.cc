// Text in, text out. `--update_golden` rewrites what the tests compare with.

#include "tests/golden/golden.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analysis/pipeline/pass_pipeline.h"
#include "analysis/plan/plan.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/runnable.h"
#include "tools/optimise.h"

namespace mica {
namespace {

std::string ReadOrDie(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  EXPECT_THAT(text, IsOk());
  return text.ok() ? *text : "";
}

// All Programs of the tree. Corpus files are those of the fuzzer, which may
// break every rule.
std::vector<std::string> ProgramFiles() {
  std::vector<std::string> paths;
  for (const char* folder : {"docs", "tests", "tools"}) {
    for (std::string& path : FindFiles(folder, ".mica")) {
      if (!absl::StrContains(path, "/corpus/")) {
        paths.push_back(std::move(path));
      }
    }
  }
  return paths;
}

TEST(GoldenTest, EveryProgramIsInCanonicalForm) {
  const std::vector<std::string> paths = ProgramFiles();
  ASSERT_FALSE(paths.empty()) << "tests run in the tree's root";
  for (const std::string& path : paths) {
    absl::StatusOr<Program> program = ParseProgram(ReadOrDie(path), AllOps());
    EXPECT_THAT(program, IsOk()) << path;
    if (program.ok()) ExpectGolden(path, ToText(*program));
  }
}

// x.bad holds text that is no Program, x.want the Status.
TEST(GoldenTest, RefusesBadProgramsWithTheWantedStatus) {
  const std::vector<std::string> paths = FindFiles("tests/golden/bad", ".bad");
  ASSERT_FALSE(paths.empty());
  for (const std::string& path : paths) {
    const auto program = ParseProgram(ReadOrDie(path), AllOps());
    EXPECT_FALSE(program.ok()) << path;
    ExpectGolden(absl::StrCat(absl::StripSuffix(path, ".bad"), ".want"),
                 absl::StrCat(program.status().ToString(), "\n"));
  }
}

// In tests/golden/passes, PASSES/x.mica is a Program before the passes of that
// list, PASSES/x.want behind them; `all` stands for all passes.
TEST(GoldenTest, PassesGiveWhatIsWanted) {
  const std::string root = "tests/golden/passes/";
  const std::vector<std::string> paths = FindFiles(root, ".mica");
  absl::flat_hash_set<std::string> seen;
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const std::string folder =
        path.substr(root.size(), path.find('/', root.size()) - root.size());
    MICA_ASSERT_OK_AND_ASSIGN(
        const PassPipeline passes,
        PassPipeline::Parse(folder == "all" ? PassPipeline::All().ToText()
                                            : folder));
    MICA_ASSERT_OK_AND_ASSIGN(
        const std::string text,
        OptimiseText(ReadOrDie(path), passes, {.verify = true}));
    EXPECT_THAT(ParseProgram(text, AllOps()), IsOk()) << text;
    ExpectGolden(absl::StrCat(absl::StripSuffix(path, ".mica"), ".want"), text);
    seen.insert(folder);
  }
  for (const Pass* pass : PassPipeline::All().passes()) {
    EXPECT_TRUE(seen.contains(std::string(pass->name)))
        << "no golden file for " << pass->name;
  }
}

// Where the next number in `text` from `at` on begins; its size if there is
// none.
size_t FindNumber(const std::string& text, size_t at) {
  while (at < text.size() && !absl::ascii_isdigit(text[at])) ++at;
  return at;
}

// A number that is at the edge of something.
std::string EdgeNumber(std::mt19937_64& random) {
  constexpr int64_t kNumbers[] = {0,
                                  1,
                                  2,
                                  -1,
                                  -2,
                                  63,
                                  1'000'000'000,
                                  int64_t{1} << 31,
                                  -(int64_t{1} << 31),
                                  int64_t{1} << 46,
                                  int64_t{1} << 62,
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  return absl::StrCat(kNumbers[random() % std::size(kNumbers)]);
}

// Small damage anywhere: a byte flipped, a piece left out or doubled, a number
// changed.
std::string Damage(std::string text, std::mt19937_64& random) {
  const int num_hits = 1 + random() % 3;
  for (int i = 0; i < num_hits && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    const size_t size = std::min<size_t>(random() % 12, text.size() - at);
    switch (random() % 8) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), size));
        break;
      case 3:
        text[at] = text[random() % text.size()];
        break;
      case 4:
        text.insert(at, absl::StrCat(static_cast<int64_t>(random())));
        break;
      default: {
        const size_t begin = FindNumber(text, at);
        size_t end = begin;
        while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
        text.replace(begin, end - begin, EdgeNumber(random));
      }
    }
  }
  return text;
}

// Bytes of all values, of views as if they were copied.
double BytesOf(const Program& program) {
  double bytes = 0;
  for (ValueId id = 0; id < program.num_values(); ++id) {
    const TensorType& type = program.type(id);
    bytes +=
        static_cast<double>(std::max(type.extent_bytes(), type.num_bytes()));
  }
  return bytes;
}

// A Program that is legal is planned, and run if it is small: with a Status,
// whatever it holds. A damaged loop may never end.
void PlanAndMaybeRun(const Program& program) {
  constexpr double kMostBytes = 1 << 20;
  if (!program.is_static()) return;
  const auto plan = Plan::Build(program, AllOps(), AllKernels(), {});
  if (!plan.ok() || BytesOf(program) > kMostBytes) return;
  if (program.depth() > 0) return;
  const auto runnable = MakeRunnable(*plan);
  if (runnable.ok()) runnable->job->Run().IgnoreError();
}

TEST(GoldenTest, DamagedProgramsAreRefusedOrRoundTrip) {
  // Other seeds: --gtest_shuffle --gtest_repeat=100.
  const uint64_t seed =
      20'261 + testing::UnitTest::GetInstance()->random_seed();
  std::mt19937_64 random(seed);
  std::vector<std::string> paths = ProgramFiles();
  for (std::string& path : FindFiles("tests/fuzz/corpus", ".mica")) {
    paths.push_back(std::move(path));
  }
  for (const std::string& path : paths) {
    const std::string text = ReadOrDie(path);
    const int rounds = std::clamp<int>(2'000'000 / (text.size() + 1), 5, 500);
    for (int i = 0; i < rounds; ++i) {
      const std::string damaged = Damage(text, random);
      const auto program = ParseProgram(damaged, AllOps());
      if (!program.ok()) continue;
      const std::string printed = ToText(*program);
      const auto again = ParseProgram(printed, AllOps());
      ASSERT_THAT(again, IsOk()) << path << ", seed " << seed << "\n"
                                 << damaged;
      ASSERT_EQ(ToText(*again), printed) << path << ", seed " << seed;
      PlanAndMaybeRun(*program);
    }
  }
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (absl::string_view(argv[i]) == "--update_golden") {
      mica::update_golden = true;
    }
  }
  return RUN_ALL_TESTS();
}
