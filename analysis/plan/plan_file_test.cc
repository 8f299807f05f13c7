#include "analysis/plan/plan_file.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_replace.h"
#include "analysis/plan/plan_cache.h"
#include "analysis/program_testing.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr char kProgram[] = R"(program @net(%x: f32[64,256]) {
  %w = variable "w" : f32[512,256]
  %b = variable "b" : f32[512]
  %c = constant [0.5, -0.0, 3, nan] : f32[4]
  %dead = aten.neg(%x) : f32[64,256] @ "net.py":1
  %t = aten.t(%w) : f32[256,512]{1,256} @ "net.py":2
  %y = aten.addmm(%b, %x, %t) : f32[64,512] @ "net.py":3
  %z = aten.relu(%y) : f32[64,512] @ "net.py":4
  %s = aten._softmax(%z, -1, false) : f32[64,512] @ "net.py":5
  %u = aten.add.Tensor(%w, %w) : f32[512,256] @ "net.py":6
  %d = aten.exp(%c) : f32[4] @ "net.py":7
  update "w" = %u
  return %s, %z, %d
}
)";

class PlanFileTest : public testing::Test {
 protected:
  void SetUp() override {
    MICA_ASSERT_OK_AND_ASSIGN(
        plan_, Plan::Build(*program_, AllOps(), AllKernels(), options_));
    MICA_ASSERT_OK_AND_ASSIGN(bytes_, EncodePlan(key_, *plan_, AllOps()));
  }
  absl::StatusOr<std::shared_ptr<const Plan>> Decode(
      absl::string_view bytes) const {
    return DecodePlan(bytes, key_, *program_, AllOps(), AllKernels(), options_);
  }
  // The bytes with a checksum that fits what was done to them.
  static std::string Sealed(std::string bytes) {
    constexpr size_t kMagicBytes = 12, kDigits = 32;
    bytes.replace(
        kMagicBytes, kDigits,
        FingerprintOf(absl::string_view(bytes).substr(kMagicBytes + kDigits))
            .ToHex());
    return bytes;
  }

  const PlanOptions options_ = {.frozen = true};
  const std::shared_ptr<const Program> program_ = ParseShared(kProgram);
  const PlanKey key_ = PlanKeyOf(*program_, options_);
  std::shared_ptr<const Plan> plan_;
  std::string bytes_;
};

TEST_F(PlanFileTest, ReadsBackToTheSamePlan) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto again, Decode(bytes_));
  EXPECT_EQ(again->ToText(), plan_->ToText());
  EXPECT_EQ(again->args(), plan_->args());
  EXPECT_EQ(ToText(again->program()), ToText(plan_->program()));
  for (size_t i = 0; i < plan_->program().ops().size(); ++i) {
    const OpId op = static_cast<OpId>(i);
    EXPECT_EQ(again->origin(op), plan_->origin(op));
  }
  MICA_ASSERT_OK_AND_ASSIGN(const PlanFileInfo info, InspectPlanFile(bytes_));
  EXPECT_TRUE(info.is_current);
  EXPECT_THAT(info.program, HasSubstr("@net"));
}

TEST_F(PlanFileTest, LinesAreThoseOfTheProgramAtHand) {
  const auto other =
      ParseShared(absl::StrReplaceAll(kProgram, {{"net.py", "user.py"}}));
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto plan,
      DecodePlan(bytes_, key_, *other, AllOps(), AllKernels(), options_));
  EXPECT_THAT(plan->source(plan->steps()[0]).ToString(), HasSubstr("user.py"));
}

TEST_F(PlanFileTest, ADamagedFileIsNoPlan) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = bytes_;
    if (i % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else if (i % 3 == 1) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    } else {
      bytes.insert(random() % bytes.size(), 1, static_cast<char>(random()));
    }
    EXPECT_THAT(Decode(bytes).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("")));
    EXPECT_FALSE(InspectPlanFile(bytes).ok());
  }
}

// What a checksum doesn't tell, as who may write the folder could make it: each
// field is checked by itself, so that no step reads or writes elsewhere.
TEST_F(PlanFileTest, AForgedFilePutsNothingElsewhere) {
  std::mt19937 random(2);
  int accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = bytes_;
    const size_t at = 44 + random() % (bytes.size() - 44);
    if (i % 4 == 0) {
      bytes.erase(at, random() % 9);
    } else {
      bytes[at] = i % 2 == 0 ? static_cast<char>(random())
                             : static_cast<char>('0' + random() % 10);
    }
    const auto plan = Decode(Sealed(bytes));
    if (!plan.ok()) {
      EXPECT_THAT(plan.status().code(), AnyOf(absl::StatusCode::kDataLoss,
                                              absl::StatusCode::kNotFound));
      continue;
    }
    ++accepted;
    EXPECT_EQ((*plan)->args(), plan_->args());
    EXPECT_EQ((*plan)->steps().size(), plan_->steps().size());
  }
  EXPECT_LT(accepted, 200);
}

TEST_F(PlanFileTest, AnotherKeyFindsNothing) {
  const auto other = ParseShared(absl::StrReplaceAll(kProgram, {{"64", "65"}}));
  EXPECT_THAT(DecodePlan(bytes_, PlanKeyOf(*other, options_), *other, AllOps(),
                         AllKernels(), options_)
                  .status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  PlanKey key = key_;
  key.setting += "another CPU";
  EXPECT_THAT(
      DecodePlan(bytes_, key, *program_, AllOps(), AllKernels(), options_)
          .status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
}

TEST_F(PlanFileTest, OpaqueOperatorsAreRefusedByName) {
  const auto program = ParseShared(R"(program @o(%x: f32[8]) {
  opaque "aten::secret(Tensor self) -> Tensor"
  %y = aten.secret(%x) : f32[8] @ "user.py":7
  return %y
}
)");
  const PlanOptions options = {
      .prepare_aten = [](const KernelRequest&) { return Verdict(Prepared()); }};
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto plan, Plan::Build(*program, AllOps(), AllKernels(), options));
  EXPECT_THAT(
      EncodePlan(PlanKeyOf(*program, options), *plan, AllOps()).status(),
      StatusIs(absl::StatusCode::kUnimplemented,
               HasSubstr("aten.secret (user.py:7)")));
}

TEST_F(PlanFileTest, ACacheReadsWhatAnotherHasLeft) {
  std::string folder = testing::TempDir() + "mica_plans_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto get = [&](PlanCache::Stats& stats) {
    PlanCache cache(AllOps(), AllKernels());
    auto store = PlanStore::Open(folder);
    EXPECT_THAT(store, IsOk());
    cache.set_store(*std::move(store));
    auto plan = cache.Get(program_, options_);
    stats = cache.stats();
    return plan.ok() ? (*plan)->ToText() : plan.status().ToString();
  };
  PlanCache::Stats stats;
  EXPECT_EQ(get(stats), plan_->ToText());
  EXPECT_EQ(stats.built, 1);
  EXPECT_EQ(get(stats), plan_->ToText());
  EXPECT_EQ(stats.built, 0);
  EXPECT_EQ(stats.loaded, 1);
  // A damaged entry is built again, and whole from then on.
  const std::string file = folder + "/" + key_.fingerprint.ToHex() + ".plan";
  std::filesystem::resize_file(file, 100);
  EXPECT_EQ(get(stats), plan_->ToText());
  EXPECT_EQ(stats.built, 1);
  EXPECT_EQ(get(stats), plan_->ToText());
  EXPECT_EQ(stats.loaded, 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mica
