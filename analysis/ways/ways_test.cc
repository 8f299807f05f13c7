#include "analysis/ways/ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/lower/tape_testing.h"
#include "analysis/ways/way_parts.h"
#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using ::testing::HasSubstr;

// What a gate does if it is shut.
enum class Shut { kTanh, kNothing };

// A run of
//   gates = neg(x); h = relu(x)
//   for each gate: if gates[i]: h = sin(h), else h = tanh(h) or nothing
//   return h + gates
// A caller that kept the first h adds that, too. `is_own` says whether the
// joins tell that nobody else has h.
WayRun MakeRun(const std::vector<bool>& gates, Shut shut, bool is_own,
               bool keeps_first = false) {
  TapeMaker maker;
  int32_t storage = 1;
  const TapeTensorId x = maker.Input({3}, 0);
  const auto call = [&](std::string op, std::vector<TapeTensorId> args) {
    std::vector<TapeValue> values;
    for (const TapeTensorId arg : args) values.push_back(TapeTensorRef{arg});
    const TapeTensorId made = maker.Made({3}, storage++);
    maker.Call(std::move(op), std::move(values), made);
    maker.MadeByLastCall(made);
    return made;
  };
  const auto now = [&] {
    return static_cast<int32_t>(maker.tape().calls.size());
  };
  WayRun run;
  const TapeTensorId all = call("neg", {x});
  TapeTensorId h = call("relu", {x});
  const TapeTensorId first = h;
  for (size_t i = 0; i < gates.size(); ++i) {
    const TapeTensorId gate = call(absl::StrCat("gate", i), {all});
    TapeCall& read =
        maker.Call("aten._local_scalar_dense", {TapeTensorRef{gate}}, gate);
    read.outputs = {TapeValue(static_cast<bool>(gates[i]))};
    run.events.push_back({.calls = now(), .asked = now() - 1});
    if (gates[i]) {
      h = call("sin", {h});
    } else if (shut == Shut::kTanh) {
      h = call("tanh", {h});
    }
    run.events.push_back({.kind = WayEvent::Kind::kJoin,
                          .calls = now(),
                          .since = static_cast<int32_t>(i),
                          .state = static_cast<int32_t>(i),
                          .tensors = {{h, is_own}, {all, false}}});
  }
  TapeTensorId result = call("add", {h, all});
  if (keeps_first) result = call("add", {result, first});
  maker.tape().results = {result};
  run.tape = std::make_shared<const Tape>(maker.tape());
  return run;
}

std::string Expected(const std::vector<bool>& gates, Shut shut,
                     bool keeps_first = false) {
  std::string h = "relu(x)";
  for (const bool gate : gates) {
    if (gate) {
      h = absl::StrCat("sin(", h, ")");
    } else if (shut == Shut::kTanh) {
      h = absl::StrCat("tanh(", h, ")");
    }
  }
  h = absl::StrCat("add(", h, ",neg(x))");
  return keeps_first ? absl::StrCat("add(", h, ",relu(x))") : h;
}

bool SameState(int32_t, int32_t a, int32_t, int32_t b) { return a == b; }

// What the graph computes where the gates are so; nothing where it knows no
// way.
class Evaluator {
 public:
  explicit Evaluator(const Ways& ways)
      : ways_(ways), wanted_(FindWanted(ways)) {}

  std::optional<std::string> Go(const std::vector<bool>& gates) {
    env_.clear();
    EXPECT_TRUE(wanted_[0].empty());
    int32_t number = 0;
    while (true) {
      const Ways::Node& node = ways_.nodes()[number];
      auto part = MakeWayPart(ways_, number, wanted_);
      EXPECT_THAT(part, IsOk());
      if (!part.ok()) return std::nullopt;
      Compute(*part, node.run);
      const Tape& tape = *ways_.runs()[node.run].tape;
      if (node.next.empty()) return At({node.run, tape.results[0]});
      size_t edge = 0;
      if (part->read >= 0) {
        const std::string gate = At({node.run, part->read});
        const bool is_open = gates[static_cast<size_t>(gate[4] - '0')];
        while (edge < node.next.size() &&
               node.next[edge].outcome != TapeValue(is_open)) {
          ++edge;
        }
        if (edge == node.next.size()) return std::nullopt;
      }
      std::vector<std::pair<Ways::Name, std::string>> moved;
      for (const auto& [to, from] :
           FindMoves(node.next[edge], ways_, wanted_)) {
        moved.push_back({to, At(from)});
      }
      for (auto& [to, value] : moved) env_[to] = std::move(value);
      number = node.next[edge].node;
    }
  }

 private:
  std::string At(const Ways::Name& name) {
    const TapeTensor& tensor =
        ways_.runs()[name.run].tape->tensors[name.tensor];
    if (tensor.origin == TapeOrigin::kInput) return "x";
    EXPECT_TRUE(env_.contains(name)) << name.run << "." << name.tensor;
    return env_[name];
  }

  // Of what it makes it leaves its results alone.
  void Compute(const WayPart& part, int32_t run) {
    std::map<TapeTensorId, std::string> own;
    for (const TapeTensorId id : part.kept) own[id] = At({run, id});
    for (const TapeCall& call : part.tape.calls) {
      std::string value = absl::StrCat(call.op, "(");
      for (size_t i = 0; i < call.args.size(); ++i) {
        const TapeTensorId id = std::get<TapeTensorRef>(call.args[i]).id;
        absl::StrAppend(&value, i == 0 ? "" : ",",
                        own.contains(id) ? own[id] : At({run, id}));
      }
      own[std::get<TapeTensorRef>(call.outputs[0]).id] =
          absl::StrCat(value, ")");
    }
    for (const TapeTensorId id : part.results) env_[{run, id}] = own[id];
  }

  const Ways& ways_;
  const std::vector<WantedNames> wanted_;
  std::map<Ways::Name, std::string> env_;
};

std::vector<bool> GatesOf(int bits, int count) {
  std::vector<bool> gates;
  for (int i = 0; i < count; ++i) gates.push_back(((bits >> i) & 1) != 0);
  return gates;
}

// All that the graph knows a way for is right; how many those are.
int CountWays(const Ways& ways, int count, Shut shut,
              bool keeps_first = false) {
  Evaluator evaluator(ways);
  int known = 0;
  for (int bits = 0; bits < 1 << count; ++bits) {
    const std::vector<bool> gates = GatesOf(bits, count);
    const std::optional<std::string> value = evaluator.Go(gates);
    if (!value.has_value()) continue;
    ++known;
    EXPECT_EQ(*value, Expected(gates, shut, keeps_first)) << bits;
  }
  return known;
}

TEST(Ways, TwoRunsKnowAllWays) {
  Ways ways;
  for (const int bits : {0b0101, 0b1010}) {
    ASSERT_THAT(
        ways.Add(MakeRun(GatesOf(bits, 4), Shut::kTanh, false), SameState),
        IsOk());
  }
  EXPECT_EQ(CountWays(ways, 4, Shut::kTanh), 16);
  EXPECT_THAT(ToText(ways), HasSubstr("; true -> "));
}

TEST(Ways, NothingDoneIsAWay) {
  for (int first = 0; first < 16; ++first) {
    Ways ways;
    for (const int bits : {first, 15 - first}) {
      ASSERT_THAT(
          ways.Add(MakeRun(GatesOf(bits, 4), Shut::kNothing, true), SameState),
          IsOk());
    }
    EXPECT_EQ(CountWays(ways, 4, Shut::kNothing), 16) << first;
  }
}

// A run in which h stays the first one can't tell who wants which.
TEST(Ways, WhatOthersMayHaveIsNeverTakenForAnother) {
  for (const bool keeps_first : {false, true}) {
    for (int seed = 0; seed < 64; ++seed) {
      Ways ways;
      uint32_t random = static_cast<uint32_t>(seed) * 2654435761U + 1;
      for (int run = 0; run < 6; ++run) {
        random = random * 1664525U + 1013904223U;
        const std::vector<bool> gates =
            GatesOf(static_cast<int>(random >> 28), 4);
        // Those that can't be one with the others are left out.
        static_cast<void>(ways.Add(
            MakeRun(gates, Shut::kNothing, false, keeps_first), SameState));
      }
      EXPECT_GE(CountWays(ways, 4, Shut::kNothing, keeps_first), 1);
    }
  }
}

TEST(Ways, OtherStatesNeverMeet) {
  Ways ways;
  const auto never = [](int32_t, int32_t, int32_t, int32_t) { return false; };
  for (const int bits : {0b00, 0b01, 0b10}) {
    ASSERT_THAT(ways.Add(MakeRun(GatesOf(bits, 2), Shut::kTanh, true), never),
                IsOk());
  }
  EXPECT_EQ(CountWays(ways, 2, Shut::kTanh), 3);
}

TEST(Ways, RunsThatDifferBetweenForksArentOne) {
  Ways ways;
  ASSERT_THAT(ways.Add(MakeRun({true, true}, Shut::kTanh, true), SameState),
              IsOk());
  WayRun other = MakeRun({true, false}, Shut::kTanh, true);
  Tape tape = *other.tape;
  tape.calls[1].op = "exp";
  other.tape = std::make_shared<const Tape>(tape);
  EXPECT_THAT(ways.Add(other, SameState).message(),
              HasSubstr("other calls come between two forks"));
  EXPECT_EQ(CountWays(ways, 2, Shut::kTanh), 1);
}

TEST(Ways, AWriteToWhatWasMadeBeforeAForkIsRefused) {
  WayRun run = MakeRun({true}, Shut::kTanh, true);
  Tape tape = *run.tape;
  tape.calls.back().mutated_args = {0};
  run.tape = std::make_shared<const Tape>(tape);
  Ways ways;
  ASSERT_THAT(ways.Add(run, SameState), IsOk());
  const auto wanted = FindWanted(ways);
  const auto last = static_cast<int32_t>(ways.nodes().size()) - 1;
  EXPECT_THAT(MakeWayPart(ways, last, wanted).status().message(),
              HasSubstr("writes what was made before a fork"));
}

}  // namespace
}  // namespace mica
