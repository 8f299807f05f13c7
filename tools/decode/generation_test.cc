#include "tools/decode/generation.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/test_matchers.h"
#include "framework/saved/saved_program.h"
#include "framework/tensor/npy.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"
#include "tools/decode/decoder.h"

namespace mica {
namespace {

using testing::HasSubstr;

// A token's row goes to its place in the cache; logits are the products of the
// cache's sum with all rows. N tokens at a time.
constexpr char kDecoder[] = R"(
program @step(%ids: i64[1,N], %places: i64[N]) {
  %w = variable "w" : f32[5,4]
  %cache = variable "cache" : f32[8,4]
  %rows = aten.embedding(%w, %ids) : f32[1,N,4]
  %flat = aten.view(%rows, [N, 4]) : f32[N,4]
  %filled = aten.index_copy(%cache, 0, %places, %flat) : f32[8,4]
  %sum = aten.sum.dim_IntList(%filled, [0], true) : f32[1,4]
  %wt = aten.t(%w) : f32[4,5]{1,4}
  %logits = aten.mm(%sum, %wt) : f32[1,5]
  update "cache" = %filled
  return %logits
})";

constexpr std::sig_atomic_t kGo = 0;
constexpr std::sig_atomic_t kStop = SIGINT;

class GenerationTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(testing::TempDir(), "mica_generate_", test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Save("step", "1");
    Save("three", "3");
    Save("any", "n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  static float Weight(int64_t token, int64_t column) {
    return static_cast<float>((token * 7 + column * 3) % 11) - 5;
  }

  void Save(const std::string& name, const std::string& count,
            const std::string& text = kDecoder) {
    auto program =
        ParseProgram(absl::StrReplaceAll(text, {{"N", count}}), AllOps());
    MICA_ASSERT_OK(program);
    SavedProgram saved = {
        .program = std::make_shared<const Program>(*std::move(program))};
    for (const Variable& variable : saved.program->variables()) {
      const TensorType& type = saved.program->type(variable.value);
      auto tensor = Tensor::Allocate(type);
      MICA_ASSERT_OK(tensor);
      auto* data = tensor->view().as<float>();
      for (int64_t i = 0; i < type.num_elements(); ++i) {
        data[i] = variable.name == "w" ? Weight(i / 4, i % 4) : 0;
      }
      saved.variables.push_back(*std::move(tensor));
    }
    MICA_ASSERT_OK(WriteSavedProgram(Path(name), saved));
  }

  // What the decoder is, in plain words.
  static std::vector<float> LogitsAfter(const std::vector<int64_t>& tokens) {
    std::vector<float> logits(5);
    for (int64_t word = 0; word < 5; ++word) {
      for (const int64_t token : tokens) {
        for (int64_t j = 0; j < 4; ++j) {
          logits[word] += Weight(token, j) * Weight(word, j);
        }
      }
    }
    return logits;
  }
  static std::vector<int64_t> Greedy(std::vector<int64_t> tokens, int count) {
    std::vector<int64_t> made;
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = LogitsAfter(tokens);
      made.push_back(std::max_element(logits.begin(), logits.end()) -
                     logits.begin());
      tokens.push_back(made.back());
    }
    return made;
  }

  GenerationOptions Options() const {
    return {
        .step_folder = Path("step"), .tokens = "1,4,2,3", .max_new_tokens = 4};
  }
  static std::string ErrorOf(const GenerationOptions& options) {
    const auto made = Generate(options, kGo);
    EXPECT_FALSE(made.ok());
    return std::string(made.status().message());
  }

  std::string folder_;
};

TEST_F(GenerationTest, TakesTokensAsManyAtATimeAsThereAreProgramsFor) {
  for (const char* prompt : {"", "three", "any"}) {
    DecoderOptions options = {.step_folder = Path("step")};
    if (*prompt != '\0') options.prompt_folder = Path(prompt);
    MICA_ASSERT_OK_AND_ASSIGN(const auto decoder, Decoder::Open(options));
    EXPECT_TRUE(decoder->is_frozen());
    std::vector<int64_t> all;
    for (const std::vector<int64_t>& tokens :
         std::vector<std::vector<int64_t>>{{1, 4, 2, 3}, {0}, {2, 2}}) {
      all.insert(all.end(), tokens.begin(), tokens.end());
      MICA_ASSERT_OK_AND_ASSIGN(const std::vector<float> logits,
                                decoder->Take(tokens));
      EXPECT_EQ(logits, LogitsAfter(all)) << prompt;
    }
    EXPECT_EQ(decoder->num_tokens(), 7);
  }
}

TEST_F(GenerationTest, GoesOnGreedily) {
  for (const char* prompt : {"", "three", "any"}) {
    GenerationOptions options = Options();
    if (*prompt != '\0') options.prompt_folder = Path(prompt);
    MICA_ASSERT_OK_AND_ASSIGN(const Generation made, Generate(options, kGo));
    EXPECT_EQ(made.tokens, Greedy({1, 4, 2, 3}, 4)) << prompt;
    EXPECT_EQ(made.prompt_tokens, 4);
    EXPECT_EQ(made.num_steps, 2);
    EXPECT_FALSE(made.is_stopped);
  }
}

TEST_F(GenerationTest, ReadsThePromptFromAFile) {
  MICA_ASSERT_OK_AND_ASSIGN(
      Tensor tokens, Tensor::Allocate({.dtype = DType::kI64, .dims = {1, 2}}));
  tokens.view().as<int64_t>()[0] = 3;
  tokens.view().as<int64_t>()[1] = 1;
  MICA_ASSERT_OK(WriteNpy(Path("tokens.npy"), tokens.view()));
  GenerationOptions options = Options();
  options.tokens = "";
  options.tokens_path = Path("tokens.npy");
  MICA_ASSERT_OK_AND_ASSIGN(const Generation made, Generate(options, kGo));
  EXPECT_EQ(made.tokens, Greedy({3, 1}, 4));
}

TEST_F(GenerationTest, EndsWithAnEndTokenOrASignal) {
  GenerationOptions options = Options();
  const std::vector<int64_t> all = Greedy({1, 4, 2, 3}, 4);
  options.end_tokens = absl::StrCat("99,", all[0]);
  MICA_ASSERT_OK_AND_ASSIGN(Generation made, Generate(options, kGo));
  EXPECT_EQ(made.tokens, std::vector<int64_t>{all[0]});
  MICA_ASSERT_OK_AND_ASSIGN(made, Generate(Options(), kStop));
  EXPECT_TRUE(made.is_stopped);
  EXPECT_EQ(made.tokens, std::vector<int64_t>{all[0]});
}

TEST_F(GenerationTest, ACacheThatIsFullIsAnError) {
  GenerationOptions options = Options();
  options.max_new_tokens = 20;
  const std::string error = ErrorOf(options);
  EXPECT_THAT(error, HasSubstr("token 8"));
  EXPECT_THAT(error, HasSubstr("aten.index_copy"));
}

TEST_F(GenerationTest, AWordThatIsNoneIsAnError) {
  GenerationOptions options = Options();
  options.tokens = "1,5";
  EXPECT_THAT(ErrorOf(options), HasSubstr("aten.embedding"));
}

TEST_F(GenerationTest, AVariableThatOneWritesAndOneReadsIsNotPacked) {
  Save("reads", "3",
       absl::StrReplaceAll(kDecoder, {{"  update \"cache\" = %filled\n", ""}}));
  MICA_ASSERT_OK_AND_ASSIGN(const auto decoder,
                            Decoder::Open({.step_folder = Path("step"),
                                           .prompt_folder = Path("reads")}));
  EXPECT_FALSE(decoder->is_frozen());
}

TEST_F(GenerationTest, RefusesProgramsOfAnotherKind) {
  GenerationOptions options = Options();
  options.step_folder = Path("three");
  EXPECT_THAT(ErrorOf(options), HasSubstr("wants a Program that takes one"));
  options.step_folder = Path("none");
  EXPECT_THAT(ErrorOf(options), HasSubstr("none"));
  Save("floats", "1",
       absl::StrReplaceAll(
           kDecoder, {{"%places: i64[N]", "%places: i64[N], %mask: f32[8]"}}));
  options.step_folder = Path("floats");
  EXPECT_THAT(ErrorOf(options), HasSubstr("input \"mask\", f32[8]: wants"));
  options = Options();
  Save("larger", "3", absl::StrReplaceAll(kDecoder, {{"[8,4]", "[9,4]"}}));
  options.prompt_folder = Path("larger");
  EXPECT_THAT(ErrorOf(options), HasSubstr("variable \"cache\" is f32[9,4]"));
}

TEST_F(GenerationTest, RefusesOptionsThatCannotBeMeant) {
  const auto refused = [&](auto change) {
    GenerationOptions options = Options();
    change(options);
    return std::string(CheckOptions(options).message());
  };
  EXPECT_THAT(refused([](auto& o) { o.step_folder = ""; }),
              HasSubstr("--step"));
  EXPECT_THAT(refused([](auto& o) { o.tokens = "1,x"; }),
              HasSubstr("--tokens: wants numbers"));
  EXPECT_THAT(refused([](auto& o) { o.tokens = ","; }), HasSubstr("a token"));
  EXPECT_THAT(refused([](auto& o) { o.tokens = ""; }),
              HasSubstr("--tokens_file"));
  EXPECT_THAT(refused([](auto& o) { o.end_tokens = "-1"; }),
              HasSubstr("--end"));
  EXPECT_THAT(refused([](auto& o) { o.max_new_tokens = 0; }),
              HasSubstr("--max_new_tokens"));
  EXPECT_THAT(refused([](auto& o) { o.threads = 0; }), HasSubstr("--threads"));
  EXPECT_THAT(refused([](auto& o) { o.sampling.top_p = 2; }),
              HasSubstr("--top_p"));
}

}  // namespace
}  // namespace mica
