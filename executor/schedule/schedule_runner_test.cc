#include "executor/schedule/schedule_runner.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "analysis/schedule/generate.h"
#include "executor/binding/binding.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr PipelineKind kKinds[] = {
    PipelineKind::kGpipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
    PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleV};

constexpr int kElements = 2 * 4;  // Of a micro-batch's values.
constexpr int kWeights = 4 * 4;

// What test.guard does, besides passing on its operand's bytes.
std::function<absl::Status()>& Guard() {
  static auto& guard = *new std::function<absl::Status()>();
  return guard;
}

bool LaunchGuard(const void*, void* const* args, LaunchContext& context) {
  if (Guard() != nullptr) {
    if (absl::Status status = Guard()(); !status.ok()) {
      return context.Fail(std::move(status));
    }
  }
  if (args[1] == nullptr) return true;  // Nobody reads it.
  std::memcpy(args[1], args[0], kElements * sizeof(float));
  return true;
}

PlanOptions Options() {
  return {.prepare_aten = [](const KernelRequest&) {
    Prepared prepared;
    prepared.launch = LaunchGuard;
    return Verdict(std::move(prepared));
  }};
}

StagePlan MakeStage(JobClass jobs, const std::string& text) {
  auto program = ParseProgram(text, AllOps());
  MICA_EXPECT_OK(program);
  auto plan = Plan::Build(*program, AllOps(), AllKernels(), Options());
  MICA_EXPECT_OK(plan);
  return {.jobs = jobs,
          .program = std::make_shared<const Program>(*std::move(program)),
          .plan = *std::move(plan)};
}

// A net of stages h[s+1] = h[s] * w[s], whose loss has the gradient h[last];
// each stage counts its micro-batches in seen[s].
struct Texts {
  // $0 is the stage, $1 the next one.
  static std::string Forward() {
    return R"(  %one$0 = constant [1.0] : f32[1]
  %n$0 = aten.add.Tensor(%seen$0, %one$0) : f32[1]
  %m$0 = aten.mm(%h$0, %w$0) : f32[2,4]
  %h$1 = test.guard(%m$0) : f32[2,4]
)";
  }
  static std::string Input() {
    return R"(  %k$0 = test.guard(%g$1) : f32[2,4]
  %v$0 = aten.t(%w$0) : f32[4,4]{1,4}
  %g$0 = aten.mm(%k$0, %v$0) : f32[2,4]
)";
  }
  static std::string Weight() {
    return R"(  %x$0 = aten.t(%h$0) : f32[4,2]{1,4}
  %q$0 = test.guard(%g$1) : f32[2,4]
  %d$0 = aten.mm(%x$0, %q$0) : f32[4,4]
  %s$0 = aten.add.Tensor(%a$0, %d$0) : f32[4,4]
)";
  }
  static std::string Program(const std::string& name,
                             const std::vector<std::string>& inputs,
                             const std::string& body) {
    std::string types;
    for (const std::string& input : inputs) {
      absl::StrAppend(&types, types.empty() ? "" : ", ", "%", input, ": ",
                      input == "lr" ? "f32[1]" : "f32[2,4]");
    }
    return absl::StrCat("program @", name, "(", types, ") {\n",
                        "  opaque \"test::guard(Tensor x) -> Tensor\"\n", body,
                        "}\n");
  }
  static constexpr char kW[] = "  %w$0 = variable \"w$0\" : f32[4,4]\n";
  static constexpr char kA[] = "  %a$0 = variable \"a$0\" : f32[4,4]\n";
  static constexpr char kSeen[] = "  %seen$0 = variable \"seen$0\" : f32[1]\n";
};

class ScheduleRunnerTest : public testing::Test {
 protected:
  void TearDown() override { Guard() = nullptr; }

  // The Programs of one stage; the last one's output is its own gradient.
  void AddStage(int stage, bool is_last, bool is_split) {
    const std::string h = absl::StrCat("h", stage);
    const std::string g = absl::StrCat(is_last ? "h" : "g", stage + 1);
    const auto add = [&](JobType type, const std::vector<std::string>& inputs,
                         const std::string& body) {
      std::string text = absl::Substitute(
          Texts::Program(absl::StrCat(ToString(type), stage), inputs, body),
          stage, stage + 1);
      if (is_last && type != JobType::kForward) {
        text = absl::StrReplaceAll(text, {{absl::StrCat("%g", stage + 1),
                                           absl::StrCat("%h", stage + 1)}});
      }
      stages_.push_back(MakeStage({type, stage}, text));
    };
    add(JobType::kForward, {h},
        absl::StrCat(Texts::kW, Texts::kSeen, Texts::Forward(),
                     "  update \"seen$0\" = %n$0\n  return %h$1\n"));
    const std::string sum = "  update \"a$0\" = %s$0\n";
    if (is_split) {
      add(JobType::kBackwardInput, {g},
          absl::StrCat(Texts::kW, Texts::Input(), "  return %g$0\n"));
      add(JobType::kBackwardWeight, {h, g},
          absl::StrCat(Texts::kA, Texts::Weight(), sum, "  return\n"));
    } else {
      add(JobType::kBackward, {h, g},
          absl::StrCat(Texts::kW, Texts::kA, Texts::Input(), Texts::Weight(),
                       sum, "  return %g$0\n"));
    }
    add(JobType::kUpdate, {"lr"},
        absl::StrCat(Texts::kW, Texts::kA,
                     "  %p$0 = aten.mul.Tensor(%a$0, %lr) : f32[4,4]\n"
                     "  %u$0 = aten.sub.Tensor(%w$0, %p$0) : f32[4,4]\n"
                     "  update \"w$0\" = %u$0\n  return\n"));
  }

  void Make(PipelineKind kind, int devices, int micro_batches) {
    const PipelineOptions options = {.kind = kind,
                                     .num_devices = devices,
                                     .num_micro_batches = micro_batches};
    MICA_ASSERT_OK_AND_ASSIGN(schedule_, MakePipeline(options));
    const int num_stages = NumStages(options);
    const bool is_split = kind == PipelineKind::kZeroBubbleH1 ||
                          kind == PipelineKind::kZeroBubbleV;
    stages_.clear();
    last_ = absl::StrCat("h", num_stages);
    accumulators_.clear();
    for (int stage = 0; stage < num_stages; ++stage) {
      AddStage(stage, stage + 1 == num_stages, is_split);
      accumulators_.push_back(absl::StrCat("a", stage));
    }
    MakeVariables(num_stages);
    feeds_.clear();
    batches_.clear();
    batches_.resize(micro_batches);
    for (int i = 0; i < micro_batches; ++i) {
      for (int j = 0; j < kElements; ++j) {
        batches_[i].push_back(0.1f * static_cast<float>((7 * i + 3 * j) % 11) -
                              0.4f);
      }
      feeds_.push_back({{"h0", ViewOf(batches_[i], {2, 4})}});
    }
  }

  void MakeVariables(int num_stages) {
    weights_.assign(num_stages, std::vector<float>(kWeights));
    seen_.assign(num_stages, {100});
    for (int stage = 0; stage < num_stages; ++stage) {
      for (int i = 0; i < kWeights; ++i) {
        weights_[stage][i] =
            0.05f * static_cast<float>((5 * i + stage) % 13) - 0.2f;
      }
    }
  }

  NamedViews Variables() {
    NamedViews views;
    for (size_t i = 0; i < weights_.size(); ++i) {
      views[absl::StrCat("w", i)] = ViewOf(weights_[i], {4, 4});
      views[absl::StrCat("seen", i)] = ViewOf(seen_[i], {1});
    }
    return views;
  }
  NamedViews UpdateFeeds() { return {{"lr", ViewOf(rate_, {1})}}; }

  absl::StatusOr<std::shared_ptr<const PipelinePlan>> MakePipelinePlan() {
    return PipelinePlan::Build(
        schedule_, stages_,
        {.fetches = {last_}, .accumulators = accumulators_});
  }
  void MakeRunner() {
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan, MakePipelinePlan());
    MICA_ASSERT_OK_AND_ASSIGN(runner_,
                              ScheduleRunner::Create(plan, Variables(), {}));
  }

  // One step of the whole net in one Program, micro-batch after micro-batch.
  // Gives the last values.
  std::vector<std::vector<float>> RunUncut() {
    const int num_stages = static_cast<int>(weights_.size());
    std::string body;
    for (const char* variable : {Texts::kW, Texts::kA, Texts::kSeen}) {
      for (int i = 0; i < num_stages; ++i) {
        absl::SubstituteAndAppend(&body, variable, i);
      }
    }
    for (int i = 0; i < num_stages; ++i) {
      absl::SubstituteAndAppend(&body, Texts::Forward(), i, i + 1);
    }
    for (int i = num_stages - 1; i >= 0; --i) {
      std::string backward = absl::Substitute(
          absl::StrCat(Texts::Input(), Texts::Weight()), i, i + 1);
      if (i + 1 == num_stages) {
        backward = absl::StrReplaceAll(
            backward, {{absl::StrCat("%g", i + 1), absl::StrCat("%h", i + 1)}});
      }
      absl::StrAppend(&body, backward);
    }
    for (int i = 0; i < num_stages; ++i) {
      absl::SubstituteAndAppend(
          &body, "  update \"a$0\" = %s$0\n  update \"seen$0\" = %n$0\n", i);
    }
    absl::StrAppend(&body, "  return %", last_, "\n");
    const auto plan = MakeStage({}, Texts::Program("uncut", {"h0"}, body)).plan;
    std::vector<std::vector<float>> sums(num_stages,
                                         std::vector<float>(kWeights, -0.0f));
    std::vector<TensorView> views;
    for (auto& w : weights_) views.push_back(ViewOf(w, {4, 4}));
    for (auto& a : sums) views.push_back(ViewOf(a, {4, 4}));
    for (auto& n : seen_) views.push_back(ViewOf(n, {1}));
    const auto binding = Binding::Create(plan, views);
    MICA_EXPECT_OK(binding);
    auto job = Job::Create(*binding);
    MICA_EXPECT_OK(job);
    std::vector<std::vector<float>> results;
    for (std::vector<float>& batch : batches_) {
      results.emplace_back(kElements);
      (*job)->SetInput(0, batch.data());
      (*job)->SetOutput(0, results.back().data());
      MICA_EXPECT_OK((*job)->Run());
    }
    for (int i = 0; i < num_stages; ++i) {
      for (int j = 0; j < kWeights; ++j) {
        const float step = sums[i][j] * rate_[0];
        weights_[i][j] -= step;
      }
    }
    return results;
  }

  Schedule schedule_;
  std::vector<StagePlan> stages_;
  std::vector<std::string> accumulators_;
  std::string last_;
  std::vector<std::vector<float>> batches_;
  std::vector<NamedViews> feeds_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<float>> seen_;
  std::vector<float> rate_ = {0.25f};
  std::unique_ptr<ScheduleRunner> runner_;
};

TEST_F(ScheduleRunnerTest, EveryKindGivesTheUncutStepBitForBit) {
  for (const PipelineKind kind : kKinds) {
    SCOPED_TRACE(std::string(ToString(kind)));
    Make(kind, 3, 6);
    MakeRunner();
    for (int step = 0; step < 3; ++step) {
      const auto weights = weights_;
      const auto seen = seen_;
      const auto want = RunUncut();
      const auto want_weights = std::exchange(weights_, weights);
      const auto want_seen = std::exchange(seen_, seen);
      MakeRunner();
      MICA_ASSERT_OK_AND_ASSIGN(const auto got,
                                runner_->Run(feeds_, UpdateFeeds()));
      EXPECT_NE(weights_, weights);
      EXPECT_EQ(weights_, want_weights);
      EXPECT_EQ(seen_, want_seen);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(std::memcmp(got[i][0].data(), want[i].data(),
                              kElements * sizeof(float)),
                  0);
      }
    }
  }
}

TEST_F(ScheduleRunnerTest, RunsManyTimesAndTellsWhenJobsRan) {
  Make(PipelineKind::k1F1B, 2, 8);
  MakeRunner();
  for (int i = 0; i < 20; ++i) {
    MICA_ASSERT_OK(runner_->Run(feeds_, UpdateFeeds()));
  }
  EXPECT_EQ(seen_[1][0], 100 + 20 * 8);
  const Timeline timeline = runner_->timeline();
  const JobGraph& graph = runner_->plan().graph();
  for (JobId id = 0; id < graph.num_jobs(); ++id) {
    EXPECT_GE(timeline.spans[id].end, timeline.spans[id].start);
    for (JobId input : graph.inputs(id)) {
      EXPECT_GE(timeline.spans[id].start, timeline.spans[input].end);
    }
  }
}

// A guard that fails when it has been passed `passes` times.
void FailAfter(std::atomic<int>& passes) {
  Guard() = [&passes]() -> absl::Status {
    if (passes.fetch_sub(1) != 0) return absl::OkStatus();
    return absl::InternalError("the guard said no");
  };
}

TEST_F(ScheduleRunnerTest, AnErrorAnywhereUpdatesNothing) {
  Make(PipelineKind::kZeroBubbleH1, 2, 4);
  MakeRunner();
  const auto weights = weights_;
  const auto seen = seen_;
  const int num_guards = 2 * 4 * 3;
  for (int i = 0; i < num_guards; ++i) {
    std::atomic<int> passes = i;
    FailAfter(passes);
    EXPECT_THAT(
        runner_->Run(feeds_, UpdateFeeds()),
        StatusIs(absl::StatusCode::kInternal,
                 AllOf(HasSubstr(" on device "), HasSubstr("test.guard"),
                       HasSubstr("the guard said no"))));
    EXPECT_EQ(weights_, weights);
    EXPECT_EQ(seen_, seen);
  }
  Guard() = nullptr;
  MICA_ASSERT_OK(runner_->Run(feeds_, UpdateFeeds()));
  const auto got = weights_;
  weights_ = weights;
  RunUncut();
  EXPECT_EQ(got, weights_);
}

TEST_F(ScheduleRunnerTest, NamesTheJobThatFailed) {
  Make(PipelineKind::kGpipe, 1, 8);
  MakeRunner();
  std::atomic<int> passes = 5;
  FailAfter(passes);
  EXPECT_THAT(runner_->Run(feeds_, UpdateFeeds()),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("forward(0,5) on device 0: step ")));
}

TEST_F(ScheduleRunnerTest, CancellingUpdatesNothing) {
  Make(PipelineKind::k1F1B, 2, 4);
  MakeRunner();
  const auto weights = weights_;
  std::atomic<int> passes = 7;
  Guard() = [&] {
    if (passes.fetch_sub(1) == 0) runner_->Cancel();
    return absl::OkStatus();
  };
  EXPECT_THAT(runner_->Run(feeds_, UpdateFeeds()),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("the run")));
  EXPECT_EQ(weights_, weights);
  Guard() = nullptr;
  runner_->Cancel();  // Nothing runs.
  MICA_EXPECT_OK(runner_->Run(feeds_, UpdateFeeds()));
}

TEST_F(ScheduleRunnerTest, ChecksFeedsBeforeAnythingRuns) {
  Make(PipelineKind::k1F1B, 2, 2);
  MakeRunner();
  EXPECT_THAT(runner_->Run({feeds_[0]}, UpdateFeeds()),
              StatusIs(kInvalid, HasSubstr("2 micro-batches, got 1")));
  EXPECT_THAT(runner_->Run({feeds_[0], {}}, UpdateFeeds()),
              StatusIs(kInvalid, HasSubstr("micro-batch 1: feed \"h0\" is "
                                           "missing")));
  EXPECT_THAT(runner_->Run(feeds_, {}),
              StatusIs(kInvalid, HasSubstr("updates: feed \"lr\"")));
  feeds_[1]["more"] = feeds_[1]["h0"];
  EXPECT_THAT(runner_->Run(feeds_, UpdateFeeds()),
              StatusIs(kInvalid, HasSubstr("\"more\" is for no input")));
  EXPECT_EQ(seen_[0][0], 100);
}

TEST_F(ScheduleRunnerTest, ChecksVariablesAndCpus) {
  Make(PipelineKind::k1F1B, 2, 2);
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan, MakePipelinePlan());
  NamedViews variables = Variables();
  variables.erase("w1");
  EXPECT_THAT(ScheduleRunner::Create(plan, variables, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"w1\"")));
  EXPECT_THAT(ScheduleRunner::Create(plan, Variables(), {.cpus = {0}}),
              StatusIs(kInvalid, HasSubstr("2 CPUs, got 1")));
  EXPECT_THAT(ScheduleRunner::Create(plan, Variables(), {.cpus = {0, -1}}),
              StatusIs(kInvalid, HasSubstr("CPU -1")));
  MICA_ASSERT_OK_AND_ASSIGN(
      runner_, ScheduleRunner::Create(plan, Variables(), {.cpus = {0, 0}}));
  MICA_EXPECT_OK(runner_->Run(feeds_, UpdateFeeds()));
  MICA_ASSERT_OK_AND_ASSIGN(
      runner_, ScheduleRunner::Create(plan, Variables(), {.cpus = {0, 1000}}));
  EXPECT_THAT(runner_->Run(feeds_, UpdateFeeds()),
              StatusIs(kInvalid, HasSubstr("device 1: CPU 1000")));
}

TEST_F(ScheduleRunnerTest, RefusesStagesThatDontFit) {
  Make(PipelineKind::k1F1B, 2, 2);
  const auto build = [&](std::vector<StagePlan> stages,
                         PipelinePlanOptions options) {
    return PipelinePlan::Build(schedule_, std::move(stages), options).status();
  };
  auto stages = stages_;
  stages.erase(stages.begin() + 1);
  EXPECT_THAT(build(stages, {}),
              StatusIs(kInvalid, HasSubstr("backward(0) has no Program")));
  stages = stages_;
  stages.push_back(stages[0]);
  EXPECT_THAT(build(stages, {}),
              StatusIs(kInvalid, HasSubstr("forward(0) has two Programs")));
  stages = stages_;
  stages.push_back(stages[0]);
  stages.back().jobs.type = JobType::kBackwardInput;
  EXPECT_THAT(build(stages, {}),
              StatusIs(kInvalid, HasSubstr("runs the Program of "
                                           "backward_input(0)")));
  stages = stages_;
  stages[3].program = stages[0].program;
  EXPECT_THAT(build(stages, {}),
              StatusIs(kInvalid, HasSubstr("forward(1): returns %h1, which "
                                           "forward(0) returns too")));
  EXPECT_THAT(build(stages_, {.fetches = {"nope"}}),
              StatusIs(kInvalid, HasSubstr("\"nope\" is what no Job returns")));
  EXPECT_THAT(build(stages_, {.accumulators = {"nope"}}),
              StatusIs(kInvalid, HasSubstr("\"nope\" is no Job's variable")));
}

TEST_F(ScheduleRunnerTest, RefusesVariablesThatDevicesWouldRaceOn) {
  Make(PipelineKind::k1F1B, 2, 2);
  stages_[3] =
      MakeStage({JobType::kForward, 1}, R"(program @shared(%h1: f32[2,4]) {
  %seen = variable "seen0" : f32[1]
  %h2 = aten.mul.Tensor(%h1, %seen) : f32[2,4]
  return %h2
}
)");
  EXPECT_THAT(MakePipelinePlan(),
              StatusIs(kInvalid,
                       HasSubstr("variable \"seen0\": forward(0) writes it on "
                                 "device 0, forward(1) uses it on device 1")));
  stages_[3] =
      MakeStage({JobType::kForward, 1}, R"(program @wide(%h1: f32[2,5]) {
  %h2 = aten.relu(%h1) : f32[2,5]
  return %h2
}
)");
  EXPECT_THAT(MakePipelinePlan(),
              StatusIs(kInvalid, HasSubstr("forward(1): %h1: wants f32[2,5], "
                                           "but forward(0) returns "
                                           "f32[2,4]")));
}

}  // namespace
}  // namespace mica
