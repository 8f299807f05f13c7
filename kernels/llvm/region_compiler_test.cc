#include "kernels/cpu/region_compiler.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "kernels/region/signature.h"

namespace mica::cpu {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// x + number.
region::Signature Sum(double number) {
  auto signature = region::ParseSignature(
      absl::StrCat("add.f32 %0 ", number, " -> $0 | f32.dense | f32.dense"));
  EXPECT_THAT(signature, IsOk());
  return *std::move(signature);
}

// What the code makes of 1.
float OfOne(const RegionMachineCode& code) {
  float from = 1, to = 0;
  char* const at[] = {reinterpret_cast<char*>(&from),
                      reinterpret_cast<char*>(&to)};
  const int64_t steps[] = {0, 0};
  code.fn()({.at = at, .row_steps = steps, .steps = steps, .rows = 1, .n = 1});
  return to;
}

class RegionCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "mica_code_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  RegionCompiler::Options Options() const {
    return {.folder = folder_ + "/cache"};
  }
  RegionCompiler::Options WithoutPlugin() const {
    return {.library = "/no/such/library.so", .folder = folder_ + "/cache"};
  }
  // Compiles Sum(2) by a compiler of its own, and gives what that counted.
  RegionCompiler::Stats Use(const RegionCompiler::Options& options) {
    RegionCompiler compiler(options);
    const auto code = compiler.Request(Sum(2));
    compiler.Wait();
    if (code->fn() != nullptr) {
      EXPECT_EQ(OfOne(*code), 3);
    }
    return compiler.stats();
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& file :
         std::filesystem::directory_iterator(folder_ + "/cache")) {
      files.push_back(file.path());
    }
    return files;
  }
  // Of the file that Use() has left.
  std::string File() const {
    const std::vector<std::string> files = Files();
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? "" : files[0];
  }

  std::string folder_;
};

TEST_F(RegionCompilerTest, MakesCodeInTheEnd) {
  RegionCompiler compiler({});
  const auto code = compiler.Request(Sum(2));
  compiler.Wait();
  ASSERT_NE(code->fn(), nullptr) << compiler.stats().compiler;
  EXPECT_EQ(OfOne(*code), 3);
  const RegionCompiler::Stats stats = compiler.stats();
  EXPECT_EQ(stats.compiled, 1);
  EXPECT_EQ(stats.loaded + stats.failed, 0);
  EXPECT_GT(stats.image_bytes, 0);
  EXPECT_GT(stats.compile_ms, 0);
  EXPECT_THAT(stats.compiler, testing::MatchesRegex("LLVM 19.* for v1"));
}

TEST_F(RegionCompilerTest, GivesEqualSignaturesOneCode) {
  RegionCompiler compiler({});
  const auto code = compiler.Request(Sum(2));
  EXPECT_EQ(compiler.Request(Sum(2)), code);
  EXPECT_NE(compiler.Request(Sum(3)), code);
}

TEST_F(RegionCompilerTest, ForgetsWhatNobodyHolds) {
  RegionCompiler compiler({});
  for (int i = 0; i < 1000; ++i) {
    compiler.Request(Sum(i));  // Dropped, most of them before their turn.
  }
  compiler.Wait();
  EXPECT_LT(compiler.stats().compiled, 1000);
}

TEST_F(RegionCompilerTest, MakesNoneWhenItIsOff) {
  RegionCompiler compiler({.is_on = false});
  EXPECT_FALSE(compiler.is_on());
  const auto code = compiler.Request(Sum(2));
  compiler.Wait();
  EXPECT_EQ(code->fn(), nullptr);
  EXPECT_EQ(compiler.stats().failed, 0);
}

TEST_F(RegionCompilerTest, SaysWhyThereIsNoPlugin) {
  const RegionCompiler::Stats stats = Use(WithoutPlugin());
  EXPECT_EQ(stats.compiled, 0);
  EXPECT_EQ(stats.failed, 1);
  EXPECT_THAT(stats.compiler, StartsWith("none: there is no /no/such/lib"));
}

TEST_F(RegionCompilerTest, RefusesALibraryThatIsNoPlugin) {
  const std::string path = folder_ + "/libmica_llvm.so";
  std::ofstream(path) << "nothing to load";
  const RegionCompiler::Stats stats = Use({.library = path});
  EXPECT_EQ(stats.failed, 1);
  EXPECT_THAT(stats.compiler, StartsWith("none: "));
}

TEST_F(RegionCompilerTest, ReadsWhatAnotherHasCompiledWithoutAPlugin) {
  EXPECT_EQ(Use(Options()).compiled, 1);
  const RegionCompiler::Stats stats = Use(WithoutPlugin());
  EXPECT_EQ(stats.loaded, 1);
  EXPECT_EQ(stats.compiled + stats.failed, 0);
  EXPECT_EQ(stats.compiler, "");  // It wasn't looked for.
}

TEST_F(RegionCompilerTest, ReadsNothingForAnotherLevel) {
  EXPECT_EQ(Use(Options()).compiled, 1);
  RegionCompiler::Options other = WithoutPlugin();
  other.level = RegionLevel::kV3;
  EXPECT_EQ(Use(other).failed, 1);
}

TEST_F(RegionCompilerTest, MakesAnewWhatIsDamaged) {
  EXPECT_EQ(Use(Options()).compiled, 1);
  const std::string path = File();
  const auto size = static_cast<int>(std::filesystem::file_size(path));
  std::string whole(size, '\0');
  std::ifstream(path, std::ios::binary).read(whole.data(), size);
  for (int at = 0; at < size; at += 7) {
    std::string damaged = whole;
    damaged[at] ^= 0x10;
    std::ofstream(path, std::ios::binary) << damaged;
    ASSERT_EQ(Use(WithoutPlugin()).failed, 1) << "byte " << at;
  }
  for (int length : {0, 1, 40, size / 2, size - 1}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    ASSERT_EQ(Use(WithoutPlugin()).failed, 1) << length << " bytes";
  }
  std::ofstream(path, std::ios::binary) << whole << "x";
  EXPECT_EQ(Use(WithoutPlugin()).failed, 1);
  EXPECT_EQ(Use(Options()).compiled, 1);
  EXPECT_EQ(Use(WithoutPlugin()).loaded, 1);
}

TEST_F(RegionCompilerTest, ReadsNoOtherRegionsFile) {
  EXPECT_EQ(Use(Options()).compiled, 1);
  const std::string first = File();
  RegionCompiler compiler(Options());
  const auto code = compiler.Request(Sum(7));
  compiler.Wait();
  for (const std::string& file : Files()) {
    if (file != first) std::filesystem::rename(file, first);
  }
  EXPECT_EQ(Use(WithoutPlugin()).failed, 1);
}

TEST_F(RegionCompilerTest, ReadsNoFileThatOthersCanWrite) {
  EXPECT_EQ(Use(Options()).compiled, 1);
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(File().c_str(), mode), 0);
    EXPECT_EQ(Use(WithoutPlugin()).failed, 1) << mode;
  }
  ASSERT_EQ(chmod(File().c_str(), 0600), 0);
  EXPECT_EQ(Use(WithoutPlugin()).loaded, 1);
}

TEST_F(RegionCompilerTest, ReadsNoFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  EXPECT_EQ(Use(Options()).compiled, 1);
  const std::string path = File();
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Use(WithoutPlugin()).failed, 1);
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(chown((folder_ + "/cache").c_str(), 65534, 65534), 0);
  EXPECT_EQ(Use(WithoutPlugin()).failed, 1);
}

TEST_F(RegionCompilerTest, ReadsNoLink) {
  EXPECT_EQ(Use(Options()).compiled, 1);
  const std::string path = File();
  std::filesystem::rename(path, folder_ + "/elsewhere");
  std::filesystem::create_symlink(folder_ + "/elsewhere", path);
  EXPECT_EQ(Use(WithoutPlugin()).failed, 1);
}

TEST_F(RegionCompilerTest, GoesOnWithoutAFolder) {
  RegionCompiler::Options options;
  std::ofstream(folder_ + "/file") << "no folder";
  options.folder = folder_ + "/file/cache";
  EXPECT_EQ(Use(options).compiled, 1);
  ASSERT_EQ(mkdir((folder_ + "/open").c_str(), 0700), 0);
  ASSERT_EQ(chmod((folder_ + "/open").c_str(), 0777), 0);
  options.folder = folder_ + "/open";
  EXPECT_EQ(Use(options).compiled, 1);
  EXPECT_EQ(Use(options).compiled, 1);  // It was neither kept nor read.
}

TEST_F(RegionCompilerTest, KeepsNoMoreThanItMay) {
  RegionCompiler::Options options = Options();
  options.max_folder_bytes = 4000;
  RegionCompiler compiler(options);
  std::vector<std::shared_ptr<const RegionMachineCode>> codes;
  for (int i = 0; i < 40; ++i) codes.push_back(compiler.Request(Sum(i)));
  compiler.Wait();
  EXPECT_EQ(compiler.stats().compiled, 40);
  uintmax_t bytes = 0;
  for (const std::string& file : Files()) {
    bytes += std::filesystem::file_size(file);
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, 4000u);
}

TEST_F(RegionCompilerTest, LeavesWhatIsTooLarge) {
  RegionCompiler compiler({});
  std::string text = "log.f32 %0";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&text, "; log.f32 $", i);
  absl::StrAppend(&text, " -> $1000 | f32.dense | f32.dense");
  MICA_ASSERT_OK_AND_ASSIGN(const auto signature, region::ParseSignature(text));
  const auto code = compiler.Request(signature);
  compiler.Wait();
  EXPECT_EQ(code->fn(), nullptr);
  EXPECT_EQ(compiler.stats().failed, 1);
  // Nor is it tried again.
  const auto again = compiler.Request(signature);
  compiler.Wait();
  EXPECT_EQ(compiler.stats().failed, 1);
}

TEST_F(RegionCompilerTest, ServesThreads) {
  RegionCompiler compiler({});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&compiler] {
      for (int i = 0; i < 20; ++i) {
        const auto code = compiler.Request(Sum(i));
        while (code->fn() == nullptr) std::this_thread::yield();
        EXPECT_EQ(OfOne(*code), 1 + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiler.stats().failed, 0);
}

TEST_F(RegionCompilerTest, CompilesInAChildOfFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer starts no threads in such a child";
#endif
  RegionCompiler compiler({});
  std::vector<std::shared_ptr<const RegionMachineCode>> codes;
  for (int i = 0; i < 10; ++i) codes.push_back(compiler.Request(Sum(i)));
  // Some of them are compiled by now, and some aren't.
  const pid_t child = fork();
  if (child == 0) {
    codes.push_back(compiler.Request(Sum(10)));
    compiler.Wait();
    for (int i = 0; i <= 10; ++i) {
      if (codes[i]->fn() == nullptr || OfOne(*codes[i]) != 1 + i) _exit(i + 1);
    }
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  compiler.Wait();
  EXPECT_EQ(compiler.stats().compiled, 10);
}

TEST_F(RegionCompilerTest, EndsWhileItCompiles) {
  std::vector<std::shared_ptr<const RegionMachineCode>> codes;
  for (int i = 0; i < 20; ++i) {
    RegionCompiler compiler({});
    for (int k = 0; k < 5; ++k) codes.push_back(compiler.Request(Sum(k)));
  }
  EXPECT_EQ(codes.size(), 100u);  // They outlive their compilers.
}

TEST(RegionCompilerDeathTest, ProcessesEndWhileItCompiles) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "to the sanitizer a thread at exit is a fault by itself";
#endif
  for (int i = 0; i < 20; ++i) {
    EXPECT_EXIT(
        {
          auto& compiler = *new RegionCompiler(RegionCompiler::Options{});
          auto& codes =
              *new std::vector<std::shared_ptr<const RegionMachineCode>>;
          for (int k = 0; k < 9; ++k) codes.push_back(compiler.Request(Sum(k)));
          usleep(static_cast<useconds_t>(i) * 1000);
          std::exit(0);
        },
        testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace mica::cpu
