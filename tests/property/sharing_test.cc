// A Plan that is shared by content is the one that its user would have built.
// MICA_PROPERTY_SEED=7 repeats one seed, MICA_PROPERTY_SEEDS=5000 tries more.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analysis/plan/plan_cache.h"
#include "framework/base/environment.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/program_builder.h"
#include "framework/text/text.h"
#include "glog/logging.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/equal_plans.h"
#include "tests/property/random_control.h"
#include "tests/property/random_program.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

constexpr uint64_t kNumShared = 1000;

// The same Program under other names, at other lines.
absl::StatusOr<Program> Relabel(const Program& program) {
  ProgramBuilder builder(AllOps(), "relabelled");
  std::vector<ValueId> ids(program.num_values(), kNoValue);
  const auto name = [&](ValueId id) {
    return absl::StrCat("other_", program.num_values() - id);
  };
  for (ValueId id : program.inputs()) {
    ids[id] = *builder.AddInput(name(id), program.type(id));
  }
  for (const Variable& variable : program.variables()) {
    ids[variable.value] =
        *builder.AddVariable(name(variable.value), name(variable.value),
                             program.type(variable.value));
  }
  for (const Constant& constant : program.constants()) {
    ids[constant.value] = *builder.AddConstant(
        name(constant.value), program.type(constant.value), constant.bytes);
  }
  const auto file = builder.InternName("elsewhere.py");
  for (const Op& op : program.ops()) {
    ProgramBuilder::OpSpec spec{
        .def = op.def,
        .arguments = op.arguments,
        .source = {
            .file = file, .line = 1, .is_backward = true, .scope = file}};
    RenameValues(spec.arguments, [&](ValueId id) { return ids[id]; });
    for (ValueId id : op.results) {
      spec.types.push_back(program.type(id));
      spec.names.push_back(name(id));
    }
    auto results = builder.AddOp(std::move(spec));
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < op.results.size(); ++i) {
      ids[op.results[i]] = (*results)[i];
    }
  }
  for (const Update& update : program.updates()) {
    const auto status =
        builder.AddUpdate(ids[update.target], ids[update.value]);
    if (!status.ok()) return status;
  }
  std::vector<ValueId> outputs;
  for (ValueId id : program.outputs()) outputs.push_back(ids[id]);
  return builder.Build(outputs);
}

TEST(SharingTest, ASharedPlanIsThePrivateOne) {
  ForEachSeed(kNumShared, [](uint64_t seed) {
    const PlanOptions options = {.num_threads = seed % 5 == 4 ? 2 : 1,
                                 .frozen = seed % 2 == 1,
                                 .fuse = seed % 3 != 2};
    const auto first =
        std::make_shared<const Program>(RandomProgram(seed, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(Program parsed,
                              ParseProgram(ToText(*first), AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(Program relabelled, Relabel(*first));
    PlanCache plans(AllOps(), AllKernels());
    MICA_ASSERT_OK_AND_ASSIGN(const auto shared, plans.Get(first, options));
    for (Program* other : {&parsed, &relabelled}) {
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto mine,
          Plan::Build(*other, AllOps(), AllKernels(), options));
      ExpectSamePlan(*shared, *mine);
      if (other == &parsed) {
        EXPECT_EQ(shared->ToText(), mine->ToText());
      }
      ExpectSameRun(shared, mine);
      const auto asked = std::make_shared<const Program>(std::move(*other));
      MICA_ASSERT_OK_AND_ASSIGN(const auto got, plans.Get(asked, options));
      EXPECT_EQ(got, shared);
    }
    EXPECT_EQ(plans.stats().built, 1);
  });
}

// Checks that the second Program's Plan, which may share the structure of the
// first's, is the private one. Whether it does share it.
bool IsPrivateOneByStructure(uint64_t seed, Program one, Program another) {
  const PlanOptions options = {.num_streams = seed % 7 == 6 ? 2 : 1,
                               .frozen = seed % 2 == 1};
  PlanCache plans(AllOps(), AllKernels());
  const auto first = std::make_shared<const Program>(std::move(one));
  const auto second = std::make_shared<const Program>(std::move(another));
  const auto plan = plans.Get(first, options);
  const auto other = plans.Get(second, options);
  const auto mine = Plan::Build(*second, AllOps(), AllKernels(), options);
  MICA_EXPECT_OK(plan);
  MICA_EXPECT_OK(other);
  MICA_EXPECT_OK(mine);
  if (!plan.ok() || !other.ok() || !mine.ok()) return false;
  ExpectEqualPlan(**other, **mine);
  ExpectSameRun(*other, *mine);
  if (plans.stats().by_structure == 0) return false;
  EXPECT_EQ((*plan)->structure(), (*other)->structure());
  return true;
}

// True if all seeds are run, and not those that somebody asks for.
bool RunsAllSeeds() {
  return EnvironmentVariable("MICA_PROPERTY_SEED").empty() &&
         EnvironmentVariable("MICA_PROPERTY_SEEDS").empty();
}

TEST(SharingTest, APlanBySharedStructureIsThePrivateOne) {
  // Seeds whose other Program differs in more than sizes don't count.
  uint64_t num_shared = 0;
  ForEachSeed(8 * kNumShared, [&](uint64_t seed) {
    if (num_shared == kNumShared) return;
    num_shared += IsPrivateOneByStructure(
        seed, RandomProgram(seed, AllOps()),
        RandomProgram(seed, AllOps(), {.use_other_sizes = true}));
  });
  if (RunsAllSeeds()) {
    EXPECT_EQ(num_shared, kNumShared);
  }
}

// The same of Programs with branches and loops.
TEST(SharingTest, APlanOfBodiesBySharedStructureIsThePrivateOne) {
  uint64_t num_shared = 0, num_nested = 0;
  ForEachSeed(8 * kNumShared, [&](uint64_t seed) {
    if (num_shared == kNumShared) return;
    Program program = RandomControlProgram(seed, AllOps());
    const int depth = program.depth();
    if (depth == 0) return;
    const bool is_shared = IsPrivateOneByStructure(
        seed, std::move(program),
        RandomControlProgram(seed, AllOps(), {.rows = 5, .columns = 4}));
    num_shared += is_shared;
    num_nested += is_shared && depth > 1;
  });
  if (RunsAllSeeds()) {
    EXPECT_EQ(num_shared, kNumShared);
    EXPECT_GT(num_nested, kNumShared / 10);
  }
}

TEST(SharingTest, AStoredPlanIsTheBuiltOne) {
  ForEachSeed(kNumShared, [](uint64_t seed) {
    const PlanOptions options = {.frozen = seed % 2 == 1,
                                 .fuse = seed % 3 != 2};
    const Program program = RandomProgram(seed, AllOps());
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto plan, Plan::Build(program, AllOps(), AllKernels(), options));
    MICA_ASSERT_OK_AND_ASSIGN(const auto read,
                              ThroughBytes(*plan, program, options));
    EXPECT_EQ(read->ToText(), plan->ToText());
    ExpectSamePlan(*read, *plan);
    ExpectSameRun(read, plan);
  });
}

// Another Program than the one before, whatever it is: no Plan in common.
TEST(SharingTest, DifferentProgramsHaveDifferentKeys) {
  absl::flat_hash_map<std::string, LargeString> texts;
  ForEachSeed(kNumShared, [&](uint64_t seed) {
    const Program program = RandomProgram(seed, AllOps());
    const PlanKey key = PlanKeyOf(program, {});
    const auto [it, is_new] =
        texts.try_emplace(key.fingerprint.ToHex(), key.content);
    EXPECT_EQ(it->second, key.content);
  });
}

}  // namespace
}  // namespace mica
