#include "tools/train/train.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "framework/saved/saved_program.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ops/all.h"
#include "tools/mix.h"
#include "tools/train/checkpoint.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Softmax regression by gradient descent with momentum, gradients by hand.
constexpr char kStep[] = R"(
program @step(%images: f32[8,4], %labels: i64[8], %rate: f64) {
  %w = variable "w" : f32[4,3]
  %b = variable "b" : f32[3]
  %m = variable "momentum" : f32[4,3]
  %classes = constant [0, 1, 2] : i64[3]
  %eight = constant 8 : i64
  %keep = constant 0.9 : f64
  %xw = aten.mm(%images, %w) : f32[8,3]
  %logits = aten.add.Tensor(%xw, %b) : f32[8,3]
  %p = aten._softmax(%logits, 1, false) : f32[8,3]
  %column = aten.unsqueeze(%labels, 1) : i64[8,1]
  %is = aten.eq.Tensor(%column, %classes) : bool[8,3]
  %hot = aten._to_copy(%is, dtype=f32) : f32[8,3]
  %log = aten.log(%p) : f32[8,3]
  %picked = aten.mul.Tensor(%log, %hot) : f32[8,3]
  %sum = aten.sum(%picked) : f32[]
  %minus = aten.neg(%sum) : f32[]
  %loss = aten.div.Tensor(%minus, %eight) : f32[]
  %off = aten.sub.Tensor(%p, %hot) : f32[8,3]
  %g = aten.div.Tensor(%off, %eight) : f32[8,3]
  %xt = aten.t(%images) : f32[4,8]{1,4}
  %gw = aten.mm(%xt, %g) : f32[4,3]
  %kept = aten.mul.Tensor(%m, %keep) : f32[4,3]
  %new_m = aten.add.Tensor(%kept, %gw) : f32[4,3]
  %dw = aten.mul.Tensor(%new_m, %rate) : f32[4,3]
  %new_w = aten.sub.Tensor(%w, %dw) : f32[4,3]
  %gb = aten.sum.dim_IntList(%g, [0]) : f32[3]
  %db = aten.mul.Tensor(%gb, %rate) : f32[3]
  %new_b = aten.sub.Tensor(%b, %db) : f32[3]
  update "w" = %new_w
  update "b" = %new_b
  update "momentum" = %new_m
  return %loss
})";

constexpr char kEval[] = R"(
program @eval(%images: f32[16,4]) {
  %w = variable "w" : f32[4,3]
  %b = variable "b" : f32[3]
  %xw = aten.mm(%images, %w) : f32[16,3]
  %logits = aten.add.Tensor(%xw, %b) : f32[16,3]
  return %logits
})";

constexpr std::sig_atomic_t kGo = 0;
constexpr std::sig_atomic_t kStop = SIGINT;

class TrainTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(testing::TempDir(), "mica_train_", test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Save("step", kStep);
    Save("eval", kEval);
    MakeData(100, Path("train.safetensors"));
    MakeData(30, Path("test.safetensors"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  // Writes the Program with zeros for its variables.
  void Save(const std::string& name, absl::string_view text) {
    auto program = ParseProgram(text, AllOps());
    MICA_ASSERT_OK(program);
    SavedProgram saved = {
        .program = std::make_shared<const Program>(*std::move(program))};
    for (const Variable& variable : saved.program->variables()) {
      saved.variables.push_back(Zeros(saved.program->type(variable.value)));
    }
    MICA_ASSERT_OK(WriteSavedProgram(Path(name), saved));
  }
  static Tensor Zeros(const TensorType& type) {
    auto tensor = Tensor::Allocate(type);
    EXPECT_TRUE(tensor.ok());
    std::memset(tensor->data(), 0, type.num_bytes());
    return *std::move(tensor);
  }

  // Three classes that lie apart, with some noise.
  static void MakeData(int64_t count, const std::string& path) {
    Tensor images = Zeros({.dims = {count, 4}});
    Tensor labels = Zeros({.dtype = DType::kI64, .dims = {count}});
    for (int64_t i = 0; i < count; ++i) {
      const int64_t label = i % 3;
      labels.view().as<int64_t>()[i] = label;
      for (int64_t j = 0; j < 4; ++j) {
        const double noise =
            static_cast<double>(Mix(static_cast<uint64_t>(i * 4 + j)) >> 11) /
            static_cast<double>(uint64_t{1} << 53);
        images.view().as<float>()[i * 4 + j] =
            static_cast<float>(noise + (j == label ? 1.5 : 0));
      }
    }
    MICA_ASSERT_OK(
        WriteSafetensors(path, {{"images", images}, {"labels", labels}}));
  }

  TrainOptions Options() const {
    return {.step_folder = Path("step"),
            .eval_folder = Path("eval"),
            .data = Path("train.safetensors"),
            .eval_data = Path("test.safetensors"),
            .epochs = 6,
            .seed = 3,
            .rate = {.rate = 0.2, .course = "cosine", .warmup_steps = 5},
            .has_rate = true};
  }
  // The message of a run that has to fail.
  static std::string ErrorOf(const TrainOptions& options) {
    const auto summary = Train(options, kGo);
    EXPECT_FALSE(summary.ok());
    EXPECT_EQ(summary.status().code(), kInvalid) << summary.status();
    return std::string(summary.status().message());
  }
  static std::string ReadAll(const std::string& path) {
    auto text = ReadFile(path);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  }

  std::string folder_;
};

TEST_F(TrainTest, LearnsTheClasses) {
  TrainOptions options = Options();
  options.log_path = Path("log");
  options.out_eval_folder = Path("trained");
  MICA_ASSERT_OK_AND_ASSIGN(const TrainSummary summary, Train(options, kGo));
  EXPECT_EQ(summary.epochs, 6);
  EXPECT_EQ(summary.steps, 6 * 12);
  EXPECT_GE(summary.accuracy, 0.95);
  EXPECT_FALSE(summary.is_stopped);
  std::ifstream log(Path("log"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(log, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(lines.size(), 7);
  EXPECT_EQ(lines[0]["event"], "start");
  EXPECT_EQ(lines[6]["epoch"], 6);
  EXPECT_EQ(lines[6]["accuracy"], summary.accuracy);
  EXPECT_LT(lines[6]["loss"], lines[1]["loss"]);
  MICA_ASSERT_OK_AND_ASSIGN(const SavedProgram trained,
                            ReadSavedProgram(Path("trained"), AllOps()));
  EXPECT_NE(trained.variables[0].view().as<float>()[0], 0);
}

TEST_F(TrainTest, OneThatWasStoppedGoesOnToTheSameEnd) {
  TrainOptions whole = Options();
  whole.out_weights_path = Path("whole");
  MICA_ASSERT_OK(Train(whole, kGo).status());

  TrainOptions parts = Options();
  parts.checkpoint_path = Path("checkpoint");
  parts.out_weights_path = Path("parts");
  MICA_ASSERT_OK_AND_ASSIGN(const TrainSummary stopped, Train(parts, kStop));
  EXPECT_TRUE(stopped.is_stopped);
  EXPECT_FALSE(std::filesystem::exists(Path("parts")));
  MICA_ASSERT_OK_AND_ASSIGN(const TrainSummary done, Train(parts, kGo));
  EXPECT_FALSE(done.is_stopped);
  EXPECT_EQ(ReadAll(Path("whole")), ReadAll(Path("parts")));
}

// A killed run leaves its last checkpoint, wherever in an epoch that was.
TEST_F(TrainTest, GoesOnFromTheMiddleOfAnEpoch) {
  TrainOptions options = Options();
  options.out_weights_path = Path("whole");
  options.checkpoint_path = Path("first");
  MICA_ASSERT_OK(Train(options, kGo).status());

  MICA_ASSERT_OK_AND_ASSIGN(const SavedProgram step,
                            ReadSavedProgram(Path("step"), AllOps()));
  MICA_ASSERT_OK_AND_ASSIGN(const NamedTensors file,
                            ReadSafetensors(Path("first")));
  RunIdentity identity(file.metadata.begin(), file.metadata.end());
  for (const char* key :
       {"format", "epoch", "step", "step_in_epoch", "loss_sum", "log_bytes"}) {
    identity.erase(key);
  }
  MICA_ASSERT_OK_AND_ASSIGN(
      const std::optional<Progress> end,
      ReadCheckpoint(Path("first"), *step.program, step.variables, identity));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->epoch, 6);
  EXPECT_EQ(end->step, 72);

  const Progress middle = {
      .epoch = 1, .step_in_epoch = 3, .loss_sum = 2.5, .step = 15};
  MICA_ASSERT_OK(WriteCheckpoint(Path("third"), *step.program, step.variables,
                                 middle, identity));
  MICA_ASSERT_OK_AND_ASSIGN(
      const std::optional<Progress> back,
      ReadCheckpoint(Path("third"), *step.program, step.variables, identity));
  EXPECT_EQ(back, middle);
  options.checkpoint_path = Path("third");
  options.out_weights_path = Path("parts");
  MICA_ASSERT_OK_AND_ASSIGN(const TrainSummary summary, Train(options, kGo));
  EXPECT_EQ(summary.steps, 72);
}

TEST_F(TrainTest, FilesOfAKilledRunAreRemoved) {
  TrainOptions options = Options();
  options.checkpoint_path = Path("checkpoint");
  const std::string left = Path("checkpoint.a1B2c3.tmp");
  const std::string kept = Path("checkpoint.backup");
  MICA_ASSERT_OK(WriteFile(left, {"half"}));
  MICA_ASSERT_OK(WriteFile(kept, {"mine"}));
  MICA_ASSERT_OK(Train(options, kGo).status());
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST_F(TrainTest, CheckpointsOfOtherRunsAreRefused) {
  TrainOptions options = Options();
  options.checkpoint_path = Path("checkpoint");
  MICA_ASSERT_OK(Train(options, kGo).status());
  MICA_ASSERT_OK_AND_ASSIGN(const std::string good,
                            ReadFile(Path("checkpoint")));
  TrainOptions other = options;
  other.seed = 4;
  EXPECT_THAT(ErrorOf(other), HasSubstr("checkpoint: is of another run: its "
                                        "seed is '3', this run's '4'"));
  other = options;
  other.rate.rate = 0.1;
  EXPECT_THAT(ErrorOf(other), HasSubstr("its rate is"));
  other = options;
  other.data = Path("test.safetensors");
  EXPECT_THAT(ErrorOf(other), HasSubstr("its data is"));
  MICA_ASSERT_OK(
      WriteFile(Path("checkpoint"), {good.substr(0, good.size() - 9)}));
  EXPECT_THAT(ErrorOf(options), HasSubstr("checkpoint: "));
  std::filesystem::copy_file(WeightsFileOf(Path("step")), Path("weights"));
  options.checkpoint_path = Path("weights");
  EXPECT_THAT(ErrorOf(options), HasSubstr("is no checkpoint"));
}

TEST_F(TrainTest, ProgramsThatAreNoStepsAreRefused) {
  TrainOptions options = Options();
  options.step_folder = Path("eval");
  EXPECT_THAT(ErrorOf(options), HasSubstr("no input takes a rate"));
  Save("two",
       absl::StrReplaceAll(kStep, {{"%rate: f64", "%rate: f64, %n: f64"}}));
  options.step_folder = Path("two");
  EXPECT_THAT(ErrorOf(options), HasSubstr("\"n\", f64, is neither"));
  options.rate_input = "other";
  EXPECT_THAT(ErrorOf(options), HasSubstr("no input other takes a rate"));
  options.rate_input = "rate,n";
  MICA_EXPECT_OK(Train(options, kGo).status());
  Save("fixed",
       absl::StrReplaceAll(
           kStep, {{", %rate: f64", ""},
                   {"%keep = ", "%rate = constant 0.1 : f64\n %keep = "}}));
  options = Options();
  options.step_folder = Path("fixed");
  EXPECT_THAT(ErrorOf(options), HasSubstr("no input takes a rate"));
  options.has_rate = false;
  MICA_EXPECT_OK(Train(options, kGo).status());
  Save("none", absl::StrReplaceAll(kStep, {{"return %loss", "return %p"}}));
  options = Options();
  options.step_folder = Path("none");
  EXPECT_THAT(ErrorOf(options), HasSubstr("returns its loss"));
}

TEST_F(TrainTest, TheRateIsTheExportedOneByDefault) {
  TrainOptions options = Options();
  options.rate.rate = 0;
  options.has_rate = false;
  EXPECT_THAT(ErrorOf(options), HasSubstr("wants --rate for its input rate"));
  MICA_ASSERT_OK(WriteFile(
      SignatureFileOf(Path("step")),
      {R"({"numbers": [{"name": "rate", "value": 0.25, "path": "lr"}]})"}));
  options.log_path = Path("log");
  options.rate.course = "constant";
  options.rate.warmup_steps = 0;
  MICA_ASSERT_OK(Train(options, kGo).status());
  EXPECT_THAT(ReadAll(Path("log")), HasSubstr("\"rate\":0.25"));
}

TEST_F(TrainTest, EvaluationsThatDoNotFitAreRefused) {
  TrainOptions options = Options();
  Save("renamed",
       absl::StrReplaceAll(kEval, {{"\"w\"", "\"v\""}, {"\"b\"", "\"c\""}}));
  options.eval_folder = Path("renamed");
  EXPECT_THAT(ErrorOf(options), HasSubstr("has no variable of"));
  options.eval_folder = Path("step");
  EXPECT_THAT(ErrorOf(options), HasSubstr("it is no evaluation"));
  options = Options();
  options.label = "classes";
  EXPECT_THAT(ErrorOf(options), HasSubstr("wants \"classes\", i64[rows]"));
}

TEST_F(TrainTest, DataThatDoesNotFitIsRefused) {
  TrainOptions options = Options();
  MakeData(5, Path("few.safetensors"));
  options.data = Path("few.safetensors");
  EXPECT_THAT(ErrorOf(options), HasSubstr("5 rows don't fill a batch of 8"));
  options = Options();
  options.batch_size = 32;
  EXPECT_THAT(ErrorOf(options),
              AllOf(HasSubstr("--batch_size=32"), HasSubstr("for 8")));
}

TEST_F(TrainTest, ALossThatIsNoNumberEndsTheRun) {
  TrainOptions options = Options();
  options.rate = {.rate = 1e38};
  options.checkpoint_path = Path("checkpoint");
  EXPECT_THAT(ErrorOf(options), HasSubstr("the loss is"));
  EXPECT_FALSE(std::filesystem::exists(Path("checkpoint")));
}

TEST_F(TrainTest, OptionsAreChecked) {
  TrainOptions options = Options();
  options.eval_data.clear();
  EXPECT_THAT(ErrorOf(options), HasSubstr("wants --eval_data too"));
  options = Options();
  options.checkpoint_every = 5;
  EXPECT_THAT(ErrorOf(options), HasSubstr("wants --checkpoint too"));
  options = Options();
  options.epochs = 0;
  EXPECT_THAT(ErrorOf(options), HasSubstr("--epochs"));
}

}  // namespace
}  // namespace mica
