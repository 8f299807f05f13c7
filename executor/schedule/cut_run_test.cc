// Steps that were cut into stages give the bits of the whole ones.

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "analysis/schedule/generate.h"
#include "analysis/schedule/plan_pipeline.h"
#include "executor/executor.h"
#include "executor/schedule/schedule_runner.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

constexpr int kLayers = 6;
constexpr int kRows = 4;
constexpr int kWidth = 8;

// How the stages of a step are joined.
struct Joins {
  bool scales = false;  // All gradients are divided by their global norm.
  bool ties = false;    // The last layer has the first one's weight.
};

// Sums the parts of the tied weight's gradient, and scales all gradients.
std::string JoiningText(const Joins& joins) {
  std::string text;
  if (joins.ties) {
    absl::SubstituteAndAppend(
        &text, "  %x0 = aten.add.Tensor(%y$0, %y0) : f32[$1,$1]\n", kLayers - 1,
        kWidth);
  }
  if (!joins.scales) return text;
  std::string norms, scaled;
  int num_norms = 0;
  const auto add = [&](const std::string& name, const std::string& type) {
    absl::SubstituteAndAppend(
        &text, "  %norm_$0 = aten.linalg_vector_norm(%$0) : f32[]\n", name);
    absl::StrAppend(&norms, num_norms++ == 0 ? "%norm_" : ", %norm_", name);
    absl::SubstituteAndAppend(
        &scaled, "  %scaled_$0 = aten.div.Tensor(%$0, %norm) : $1\n", name,
        type);
  };
  for (int i = 0; i < kLayers; ++i) {
    add(absl::StrCat("gb", i), absl::Substitute("f32[$0]", kWidth));
    if (joins.ties && i == kLayers - 1) continue;
    add(absl::StrCat("x", i), absl::Substitute("f32[$0,$0]", kWidth));
  }
  absl::SubstituteAndAppend(&text,
                            "  %norms = aten.stack([$0]) : f32[$1]\n"
                            "  %norm = aten.linalg_vector_norm(%norms) : "
                            "f32[]\n",
                            norms, num_norms);
  return text + scaled;
}

// Linear layers with tanh between them, squared errors, gradients as autograd
// writes them, momentum; the forward pass counts its micro-batches, the update
// of the first layer its steps.
std::string StepText(const Joins& joins = {}) {
  const int num_weights = kLayers - (joins.ties ? 1 : 0);
  const auto weight = [&](int layer) { return layer % num_weights; };
  std::string text = absl::Substitute(
      "program @step(%h0: f32[$0,$1], %y: f32[$0,$1], %lr: f32[1]) {\n", kRows,
      kWidth);
  for (int i = 0; i < kLayers; ++i) {
    absl::SubstituteAndAppend(&text, "  %b$0 = variable \"b$0\" : f32[$1]\n", i,
                              kWidth);
    if (weight(i) != i) continue;
    absl::SubstituteAndAppend(&text,
                              "  %w$0 = variable \"w$0\" : f32[$1,$1]\n"
                              "  %m$0 = variable \"m$0\" : f32[$1,$1]\n",
                              i, kWidth);
  }
  absl::StrAppend(&text,
                  "  %seen = variable \"seen\" : f32[1]\n"
                  "  %steps = variable \"steps\" : f32[1]\n"
                  "  %one = constant [1.0] : f32[1]\n"
                  "  %mu = constant [0.5] : f32[1]\n"
                  "  %seen1 = aten.add.Tensor(%seen, %one) : f32[1]\n");
  const std::string h = absl::Substitute("f32[$0,$1]", kRows, kWidth);
  const std::string w = absl::Substitute("f32[$0,$0]", kWidth);
  for (int i = 0; i < kLayers; ++i) {
    absl::SubstituteAndAppend(&text,
                              "  %t$0 = aten.t(%w$5) : $3{1,$4}\n"
                              "  %z$0 = aten.addmm(%b$0, %h$0, %t$0) : $2\n"
                              "  %h$1 = aten.tanh(%z$0) : $2\n",
                              i, i + 1, h, w, kWidth, weight(i));
  }
  absl::SubstituteAndAppend(&text,
                            "  %e = aten.sub.Tensor(%h$0, %y) : $1\n"
                            "  %q = aten.mul.Tensor(%e, %e) : $1\n"
                            "  %loss = aten.sum(%q) : f32[]\n"
                            "  %g$0 = aten.add.Tensor(%e, %e) : $1\n",
                            kLayers, h);
  for (int i = kLayers - 1; i >= 0; --i) {
    absl::SubstituteAndAppend(
        &text,
        "  %d$0 = aten.tanh_backward(%g$1, %h$1) : $2\n"
        "  %v$0 = aten.t(%d$0) : f32[$4,$5]{1,$4}\n"
        "  %$6$0 = aten.mm(%v$0, %h$0) : $3\n"
        "  %gb$0 = aten.sum.dim_IntList(%d$0, [0]) : f32[$4]\n",
        i, i + 1, h, w, kWidth, kRows,
        joins.ties && weight(i) == 0 ? "y" : "x");
    if (i == 0) continue;
    absl::SubstituteAndAppend(&text, "  %g$0 = aten.mm(%d$0, %w$2) : $1\n", i,
                              h, weight(i));
  }
  text += JoiningText(joins);
  absl::StrAppend(&text,
                  "  %steps1 = aten.add.Tensor(%steps, %one) : f32[1]\n"
                  "  %lr0 = aten.div.Tensor(%lr, %steps1) : f32[1]\n");
  std::string updates =
      "  update \"steps\" = %steps1\n  update \"seen\" = %seen1\n";
  const absl::string_view scaled = joins.scales ? "scaled_" : "";
  for (int i = 0; i < kLayers; ++i) {
    absl::SubstituteAndAppend(
        &text,
        "  %sb$0 = aten.mul.Tensor(%$3gb$0, %$2) : f32[$1]\n"
        "  %ub$0 = aten.sub.Tensor(%b$0, %sb$0) : f32[$1]\n",
        i, kWidth, i == 0 ? "lr0" : "lr", scaled);
    absl::SubstituteAndAppend(&updates, "  update \"b$0\" = %ub$0\n", i);
    if (weight(i) != i) continue;
    absl::SubstituteAndAppend(&text,
                              "  %p$0 = aten.mul.Tensor(%m$0, %mu) : $1\n"
                              "  %n$0 = aten.add.Tensor(%p$0, %$2x$0) : $1\n"
                              "  %s$0 = aten.mul.Tensor(%n$0, %lr) : $1\n"
                              "  %u$0 = aten.sub.Tensor(%w$0, %s$0) : $1\n",
                              i, w, scaled);
    absl::SubstituteAndAppend(&updates,
                              "  update \"w$0\" = %u$0\n"
                              "  update \"m$0\" = %n$0\n",
                              i);
  }
  return absl::StrCat(text, updates, "  return %loss, %h", kLayers, "\n}\n");
}

using Numbers = std::vector<float>;
using State = std::map<std::string, Numbers>;

Numbers Some(int count, int seed) {
  Numbers numbers;
  for (int i = 0; i < count; ++i) {
    numbers.push_back(0.07f * static_cast<float>((seed + 5 * i) % 17) - 0.5f);
  }
  return numbers;
}

class CutRunTest : public testing::Test {
 protected:
  void SetUp() override {
    SetStep({});
    for (int i = 0; i < 6; ++i) {
      inputs_.push_back(Some(kRows * kWidth, 3 * i + 1));
      targets_.push_back(Some(kRows * kWidth, 7 * i + 2));
    }
  }

  void SetStep(const Joins& joins) {
    program_ = ParseShared(StepText(joins));
    options_.gradients.clear();
    for (int i = 0; i < kLayers; ++i) {
      if (!joins.ties || i < kLayers - 1) {
        options_.gradients.push_back(
            {absl::StrCat("w", i), absl::StrCat("x", i)});
      }
      options_.gradients.push_back(
          {absl::StrCat("b", i), absl::StrCat("gb", i)});
    }
    options_.loss = "loss";
  }

  static State Start() {
    State state = {{"seen", {0}}, {"steps", {0}}};
    for (int i = 0; i < kLayers; ++i) {
      state[absl::StrCat("w", i)] = Some(kWidth * kWidth, i);
      state[absl::StrCat("b", i)] = Some(kWidth, i + 3);
      state[absl::StrCat("m", i)] = Numbers(kWidth * kWidth, 0);
    }
    return state;
  }
  static NamedViews Views(State& state) {
    NamedViews views;
    for (auto& [name, numbers] : state) {
      if (numbers.size() == kWidth * kWidth) {
        views[name] = ViewOf(numbers, {kWidth, kWidth});
      } else {
        views[name] = ViewOf(numbers, {static_cast<Dim>(numbers.size())});
      }
    }
    return views;
  }
  NamedViews Feeds(int batch) {
    return {{"h0", ViewOf(inputs_[batch], {kRows, kWidth})},
            {"y", ViewOf(targets_[batch], {kRows, kWidth})}};
  }

  // The step as it is, for each micro-batch of its own: its losses and the sum
  // of its gradients; then the update, by hand.
  std::vector<Numbers> RunWhole(int micro_batches, State& state) {
    auto executor =
        Executor::Create(Place(), AllOps(), AllKernels(), plan_options_);
    MICA_EXPECT_OK(executor);
    std::vector<std::string> fetches = {"loss"};
    for (const GradientOf& g : options_.gradients) fetches.push_back(g.value);
    std::vector<Numbers> losses;
    std::map<std::string, Numbers> sums;
    for (int i = 0; i < micro_batches; ++i) {
      State scratch = state;
      NamedViews feeds = Feeds(i);
      feeds["lr"] = ViewOf(rate_, {1});
      const auto results =
          (*executor)->Run(program_, feeds, Views(scratch), fetches);
      MICA_EXPECT_OK(results);
      losses.push_back(NumbersOf((*results)[0]));
      for (size_t j = 1; j < fetches.size(); ++j) {
        const Numbers got = NumbersOf((*results)[j]);
        Numbers& sum = sums[options_.gradients[j - 1].variable];
        if (sum.empty()) {
          sum = got;
          continue;
        }
        for (size_t k = 0; k < got.size(); ++k) sum[k] += got[k];
      }
    }
    state["steps"][0] += 1;
    state["seen"][0] += static_cast<float>(micro_batches);
    for (int i = 0; i < kLayers; ++i) {
      Numbers& w = state[absl::StrCat("w", i)];
      Numbers& m = state[absl::StrCat("m", i)];
      Numbers& b = state[absl::StrCat("b", i)];
      for (size_t k = 0; k < w.size(); ++k) {
        const volatile float slow = m[k] * 0.5f;  // Not fused with the sum.
        m[k] = slow + sums[absl::StrCat("w", i)][k];
        const volatile float step = m[k] * rate_[0];
        w[k] = w[k] - step;
      }
      for (size_t k = 0; k < b.size(); ++k) {
        const float rate = i == 0 ? rate_[0] / state["steps"][0] : rate_[0];
        const volatile float step = sums[absl::StrCat("b", i)][k] * rate;
        b[k] = b[k] - step;
      }
    }
    return losses;
  }

  // The step as it is for one micro-batch, uncut on one device for several.
  void RunUncut(int micro_batches, State& state) {
    if (micro_batches == 1) {
      const auto executor =
          Executor::Create(Place(), AllOps(), AllKernels(), plan_options_);
      MICA_ASSERT_OK(executor);
      NamedViews feeds = Feeds(0);
      feeds["lr"] = ViewOf(rate_, {1});
      MICA_ASSERT_OK((*executor)->Run(program_, feeds, Views(state), {}));
      return;
    }
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto runner,
        MakeRunner({.num_devices = 1, .num_micro_batches = micro_batches},
                   state));
    RunPipeline(*runner, micro_batches);
  }

  void RunPipeline(ScheduleRunner& runner, int micro_batches) {
    std::vector<NamedViews> feeds;
    for (int i = 0; i < micro_batches; ++i) feeds.push_back(Feeds(i));
    MICA_ASSERT_OK(runner.Run(feeds, {{"lr", ViewOf(rate_, {1})}}));
  }

  absl::StatusOr<std::unique_ptr<ScheduleRunner>> MakeRunner(
      const PipelineOptions& pipeline, State& state) {
    MICA_ASSIGN_OR_RETURN(const Schedule schedule, MakePipeline(pipeline));
    PlanCache plans(AllOps(), *kernels_);
    MICA_ASSIGN_OR_RETURN(
        auto plan, PlanPipeline(*program_, schedule, options_, plan_options_,
                                AllOps(), plans));
    return ScheduleRunner::Create(std::move(plan), Views(state), {});
  }

  std::shared_ptr<const Program> program_;
  CutOptions options_;
  const KernelRegistry* kernels_ = &AllKernels();
  // Fused ops may sum in another order, and cut elsewhere fuse other ones.
  PlanOptions plan_options_ = {.fuse = false};
  std::vector<Numbers> inputs_;
  std::vector<Numbers> targets_;
  Numbers rate_ = {0.125f};
};

TEST_F(CutRunTest, EveryPipelineGivesTheWholeStepBitForBit) {
  for (const PipelineKind kind :
       {PipelineKind::kGpipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
        PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleV}) {
    for (const int devices : {1, 2, 3}) {
      for (const int micro_batches : {1, 6}) {
        SCOPED_TRACE(
            absl::StrCat(ToString(kind), " on ", devices, ", ", micro_batches));
        State state = Start();
        State want = state;
        MICA_ASSERT_OK_AND_ASSIGN(
            const auto runner, MakeRunner({.kind = kind,
                                           .num_devices = devices,
                                           .num_micro_batches = micro_batches},
                                          state));
        for (int step = 0; step < 3; ++step) {
          const auto losses = RunWhole(micro_batches, want);
          std::vector<NamedViews> feeds;
          for (int i = 0; i < micro_batches; ++i) feeds.push_back(Feeds(i));
          MICA_ASSERT_OK_AND_ASSIGN(
              const auto results,
              runner->Run(feeds, {{"lr", ViewOf(rate_, {1})}}));
          for (int i = 0; i < micro_batches; ++i) {
            EXPECT_EQ(NumbersOf(results[i][0]), losses[i]);
          }
          for (const auto& [name, numbers] : want) {
            EXPECT_EQ(state[name], numbers) << name << " after step " << step;
          }
        }
      }
    }
  }
}

TEST_F(CutRunTest, JoinedStagesGiveTheWholeStepBitForBit) {
  for (const Joins joins : {Joins{.scales = true}, Joins{.ties = true},
                            Joins{.scales = true, .ties = true}}) {
    SetStep(joins);
    for (const PipelineKind kind :
         {PipelineKind::k1F1B, PipelineKind::kInterleaved,
          PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleV}) {
      for (const int devices : {2, 3}) {
        for (const int micro_batches : {1, 6}) {
          SCOPED_TRACE(absl::StrCat(ToString(kind), " on ", devices, ", ",
                                    micro_batches, ", scales ", joins.scales,
                                    ", ties ", joins.ties));
          State state = Start();
          State want = state;
          MICA_ASSERT_OK_AND_ASSIGN(
              const auto runner,
              MakeRunner({.kind = kind,
                          .num_devices = devices,
                          .num_micro_batches = micro_batches},
                         state));
          for (int step = 0; step < 3; ++step) {
            RunUncut(micro_batches, want);
            RunPipeline(*runner, micro_batches);
            EXPECT_EQ(state, want) << "after step " << step;
          }
          EXPECT_NE(state, Start());
        }
      }
    }
  }
}

// How many launches still succeed before one fails; none does below 0.
std::atomic<int> launches_left = -1;

// A kernel's launch with its state, or with what a Job made for it.
struct Failing {
  LaunchFn launch;
  std::shared_ptr<const void> state;
};
struct FailingInstance : KernelInstance {
  LaunchFn launch;
  std::unique_ptr<KernelInstance> inner;
};

bool MayLaunch(LaunchContext& context) {
  const bool is_last =
      launches_left.load() >= 0 && launches_left.fetch_sub(1) == 0;
  return !is_last || context.Fail(absl::InternalError("injected"));
}

bool LaunchFailing(const void* state, void* const* args,
                   LaunchContext& context) {
  const auto& failing = *static_cast<const Failing*>(state);
  return MayLaunch(context) &&
         failing.launch(failing.state.get(), args, context);
}

bool LaunchFailingInstance(const void* state, void* const* args,
                           LaunchContext& context) {
  const auto& failing = static_cast<const FailingInstance&>(
      *static_cast<const KernelInstance*>(state));
  return MayLaunch(context) &&
         failing.launch(failing.inner.get(), args, context);
}

void MakeFailing(Prepared& prepared) {
  prepared.never_fails = false;
  if (prepared.make_instance != nullptr) {
    prepared.make_instance = [make = prepared.make_instance,
                              launch = prepared.launch] {
      auto instance = std::make_unique<FailingInstance>();
      instance->launch = launch;
      instance->inner = make();
      return instance;
    };
    prepared.launch = LaunchFailingInstance;
    return;
  }
  prepared.state =
      std::make_shared<const Failing>(Failing{prepared.launch, prepared.state});
  prepared.launch = LaunchFailing;
}

// All kernels, but that each launch may fail. Commits copy by the kernel of
// aten.clone, which can't.
KernelRegistry FailingKernels() {
  KernelRegistry registry;
  for (const KernelKey& key : AllKernels().Keys()) {
    for (const Kernel& kernel : AllKernels().Find(key)) {
      const auto prepare = [&kernel](const KernelRequest& request) {
        Verdict verdict = kernel.prepare(request);
        auto* prepared = std::get_if<Prepared>(&verdict);
        if (prepared != nullptr && request.def->name() != "aten.clone") {
          MakeFailing(*prepared);
        }
        return verdict;
      };
      registry.Add(key, KernelRank::kFast,
                   {.name = kernel.name, .prepare = prepare});
    }
  }
  return registry;
}

TEST_F(CutRunTest, EachStepFailingInTurnUpdatesNothing) {
  const KernelRegistry kernels = FailingKernels();
  std::vector<NamedViews> feeds;
  for (int i = 0; i < 2; ++i) feeds.push_back(Feeds(i));
  const NamedViews update_feeds = {{"lr", ViewOf(rate_, {1})}};
  const Joins all = {.scales = true, .ties = true};
  for (const auto& [kind, joins] :
       {std::pair(PipelineKind::k1F1B, Joins()),
        std::pair(PipelineKind::kZeroBubbleV, Joins()),
        std::pair(PipelineKind::k1F1B, all),
        std::pair(PipelineKind::kZeroBubbleV, all)}) {
    SCOPED_TRACE(
        absl::StrCat(ToString(kind), joins.ties ? ", joined stages" : ""));
    SetStep(joins);
    State state = Start();
    const State before = state;
    kernels_ = &kernels;
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto runner,
        MakeRunner({.kind = kind, .num_devices = 2, .num_micro_batches = 2},
                   state));
    kernels_ = &AllKernels();
    int num_failed = 0;
    while (true) {
      launches_left = num_failed;
      const auto results = runner->Run(feeds, update_feeds);
      if (results.ok()) break;
      ASSERT_THAT(results,
                  StatusIs(absl::StatusCode::kInternal,
                           testing::AllOf(testing::HasSubstr(" on device "),
                                          testing::HasSubstr("injected"))));
      ASSERT_EQ(state, before) << "after " << num_failed << " launches";
      ++num_failed;
    }
    launches_left = -1;
    // A layer's product and tanh, its three gradients and their sums, twice;
    // its update once.
    EXPECT_GE(num_failed, (2 * 8 + 6) * kLayers - (joins.ties ? 6 : 0));
    State want = before;
    RunUncut(2, want);
    EXPECT_EQ(state, want);
  }
}

TEST_F(CutRunTest, SendsAreCounted) {
  State state = Start();
  MICA_ASSERT_OK_AND_ASSIGN(const auto runner,
                            MakeRunner({.kind = PipelineKind::k1F1B,
                                        .num_devices = 2,
                                        .num_micro_batches = 3},
                                       state));
  const std::string text = ToText(runner->plan());
  EXPECT_THAT(text, testing::HasSubstr("sends to device 1: %\"h3 to 1\", "
                                       "f32[4,8], 128 bytes"));
  EXPECT_THAT(text, testing::HasSubstr("receives from device 1: %\"g3 to 0\", "
                                       "f32[4,8], 128 bytes"));
}

TEST_F(CutRunTest, FusedStagesGiveTheWholeStepBitForBit) {
  plan_options_.fuse = true;
  for (const PipelineKind kind :
       {PipelineKind::k1F1B, PipelineKind::kZeroBubbleV}) {
    for (const int devices : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(ToString(kind), " on ", devices));
      State state = Start();
      State want = state;
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto runner,
          MakeRunner(
              {.kind = kind, .num_devices = devices, .num_micro_batches = 6},
              state));
      RunWhole(6, want);
      std::vector<NamedViews> feeds;
      for (int i = 0; i < 6; ++i) feeds.push_back(Feeds(i));
      MICA_ASSERT_OK(runner->Run(feeds, {{"lr", ViewOf(rate_, {1})}}));
      for (const auto& [name, numbers] : want) {
        EXPECT_EQ(state[name], numbers) << name;
      }
    }
  }
}

}  // namespace
}  // namespace mica
