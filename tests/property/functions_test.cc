// Layers that are found and called compute what they do where they stand.
// MICA_PROPERTY_SEED=7 repeats one seed, MICA_PROPERTY_SEEDS=5000 tries more.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/passes/verify.h"
#include "analysis/pipeline/pass_pipeline.h"
#include "analysis/plan/plan.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/content.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_builder.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/equal_plans.h"
#include "tests/property/plan_checker.h"
#include "tests/property/random_program.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

constexpr uint64_t kNumCallSeeds = 300;
constexpr int kNumCopies = 4;

// One copy behind another of a Program, each with variables of its own. Where
// types allow it, what one returns is what the next is given.
Program Planted(const Program& program) {
  ProgramBuilder builder(AllOps(), "planted");
  std::vector<ValueId> given;
  for (ValueId id : program.inputs()) {
    given.push_back(*builder.AddInput("", program.type(id)));
  }
  std::vector<std::vector<ValueId>> all(
      kNumCopies, std::vector<ValueId>(program.num_values(), kNoValue));
  for (int c = 0; c < kNumCopies; ++c) {
    for (const Variable& variable : program.variables()) {
      all[c][variable.value] =
          *builder.AddVariable("", absl::StrCat(c, ".", variable.name),
                               program.type(variable.value));
    }
    for (const Constant& constant : program.constants()) {
      all[c][constant.value] = *builder.AddConstant(
          "", program.type(constant.value), constant.bytes);
    }
  }
  std::vector<ValueId> outputs;
  for (int c = 0; c < kNumCopies; ++c) {
    std::vector<ValueId>& ids = all[c];
    for (size_t i = 0; i < given.size(); ++i) {
      ids[program.inputs()[i]] = given[i];
    }
    for (const Op& op : program.ops()) {
      ProgramBuilder::OpSpec spec{.def = op.def, .arguments = op.arguments};
      RenameValues(spec.arguments, [&](ValueId id) { return ids[id]; });
      for (ValueId id : op.results) spec.types.push_back(program.type(id));
      const auto results = builder.AddOp(std::move(spec));
      EXPECT_THAT(results, IsOk());
      for (size_t i = 0; i < op.results.size(); ++i) {
        ids[op.results[i]] = (*results)[i];
      }
    }
    for (ValueId id : program.outputs()) {
      outputs.push_back(ids[id]);
      for (size_t i = 0; i < given.size(); ++i) {
        const TensorType& type = program.type(program.inputs()[i]);
        if (builder.type(ids[id]) == type) given[i] = ids[id];
      }
    }
  }
  for (int c = 0; c < kNumCopies; ++c) {
    for (const Update& update : program.updates()) {
      const bool is_input =
          program.value(update.target).kind == ValueKind::kInput;
      if (is_input && c > 0) continue;
      MICA_EXPECT_OK(builder.AddUpdate(
          is_input ? builder.FindValue(
                         absl::StrCat(program.value(update.target).index))
                   : all[c][update.target],
          all[c][update.value]));
    }
  }
  return *builder.Build(outputs);
}

Program Passed(const Program& program, const std::string& passes) {
  const auto pipeline = PassPipeline::Parse(passes);
  EXPECT_THAT(pipeline, IsOk());
  absl::StatusOr<Program> passed =
      pipeline->Run(program, {AllOps(), AllKernels()}, {.verify = true});
  EXPECT_THAT(passed, IsOk());
  return *std::move(passed);
}

std::shared_ptr<const Plan> Planned(
    const Program& program, PlanOptions options = {},
    const KernelRegistry& kernels = AllKernels()) {
  options.fuse = false;
  const auto plan = Plan::Build(program, AllOps(), kernels, options);
  EXPECT_THAT(plan, IsOk());
  MICA_EXPECT_OK(CheckMemory(**plan)) << (*plan)->ToText();
  return *plan;
}

// How a Program with functions is planned.
struct Way {
  absl::string_view name;
  PlanOptions options;
  const KernelRegistry& kernels = AllKernels();
};

std::vector<Way> AllWays() {
  return {
      {"in order", {}},
      {"calls as steps", {.inline_calls = false}},
      {"no buffer is reused", {.reuse_buffers = false}},
      {"outputs lend", {.lend_above_bytes = 0}},
      // What is computed of frozen values is itself frozen, but for what a
      // function returns: only one kernel of each op rounds it alike.
      {"frozen", {.frozen = true}, ReferenceKernels()},
      {"streams", {.num_streams = 3, .wait_nanoseconds = 0}},
      {"a queue", {.num_threads = 2, .queue = true, .take_nanoseconds = 0}},
  };
}

TEST(FunctionsTest, CallsComputeWhatTheirFunctionsDoInTheirPlace) {
  int num_found = 0, num_seeds = 0;
  ForEachSeed(kNumCallSeeds, [&](uint64_t seed) {
    ++num_seeds;
    const Program program = Planted(RandomProgram(seed, AllOps()));
    const Program found = Passed(program, "remove-dead-ops,find-functions");
    if (FunctionsOf(found).empty()) return;
    ++num_found;
    // Text and content know of functions.
    MICA_ASSERT_OK_AND_ASSIGN(const Program again,
                              ParseProgram(ToText(found), AllOps()));
    EXPECT_EQ(ToText(again), ToText(found));
    EXPECT_EQ(ContentOf(again), ContentOf(found));
    EXPECT_NE(ContentOf(program), ContentOf(found));
    // Nothing was fused: the very ops.
    ExpectSameRun(Planned(found), Planned(Passed(program, "remove-dead-ops")));
    // All passes in functions and around them, but none across their borders.
    const Program passed =
        Passed(program, PassPipeline::AllWithFunctions().ToText());
    const Program inlined = Passed(passed, "inline-calls");
    Planned(passed, {.frozen = true});
    for (const Way& way : AllWays()) {
      SCOPED_TRACE(way.name);
      ExpectSameRun(Planned(passed, way.options, way.kernels),
                    Planned(inlined, way.options, way.kernels));
    }
  });
  // Small Programs hold nothing that is long enough.
  EXPECT_GE(5 * num_found, num_seeds);
}

TEST(FunctionsTest, EveryStepComesFromTheOpThatItStandsFor) {
  int num_calls = 0;
  ForEachSeed(kNumCallSeeds, [&](uint64_t seed) {
    const Program program = Planted(RandomProgram(seed, AllOps()));
    const PlanOptions options = {.share_layers = true};
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto plan, Plan::Build(program, AllOps(), AllKernels(), options));
    num_calls += static_cast<int>(plan->calls().size());
    for (const Step& step : plan->steps()) {
      if (step.call < 0 || step.op < 0) continue;
      // What passes have made of an op may have another name.
      const Op& op = *plan->op(step);
      const OpId origin = plan->origin(step);
      ASSERT_GE(origin, 0);
      const Op& first = OpAt(program, op.source.origin);
      EXPECT_EQ(OpAt(program, origin).def, first.def);
    }
    MICA_ASSERT_OK_AND_ASSIGN(const auto again,
                              ThroughBytes(*plan, program, options));
    ExpectEqualPlan(*again, *plan);
    for (size_t i = 0; i < plan->steps().size(); ++i) {
      EXPECT_EQ(again->origin(again->steps()[i]),
                plan->origin(plan->steps()[i]));
    }
  });
  EXPECT_GE(num_calls, kNumCopies);
}

}  // namespace
}  // namespace mica
