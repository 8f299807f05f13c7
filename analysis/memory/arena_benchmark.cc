// Does packing an arena stay linear, at a million lifetimes too?

#include <cstdint>
#include <random>
#include <vector>

#include "analysis/memory/arena.h"
#include "benchmark/benchmark.h"

namespace mica {
namespace {

int64_t RandomBytes(std::mt19937& random) {
  return int64_t{64} << random() % 12;
}

// Each is read within the next few steps.
std::vector<Lifetime> Inference(int32_t count) {
  std::mt19937 random(1);
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < count; ++i) {
    const auto length = static_cast<int32_t>(1 + random() % 8);
    lifetimes.push_back(
        {.first = i, .last = i + length, .bytes = RandomBytes(random)});
  }
  return lifetimes;
}

// Of what a step computes, half is kept for the way back.
std::vector<Lifetime> Training(int32_t count) {
  std::mt19937 random(2);
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < count / 3; ++i) {
    const int32_t back = 2 * (count / 3) - i;
    lifetimes.push_back(
        {.first = i, .last = back, .bytes = RandomBytes(random)});
    lifetimes.push_back(
        {.first = i, .last = i + 2, .bytes = RandomBytes(random)});
    lifetimes.push_back(
        {.first = back, .last = back + 1, .bytes = RandomBytes(random)});
  }
  return lifetimes;
}

// Anywhere, some short and a few as long as everything.
std::vector<Lifetime> Random(int32_t count) {
  std::mt19937 random(3);
  std::vector<Lifetime> lifetimes;
  for (int32_t i = 0; i < count; ++i) {
    const auto first = static_cast<int32_t>(random() % count);
    const int32_t longest = random() % 100 == 0 ? count : 30;
    const auto length = static_cast<int32_t>(random() % longest);
    lifetimes.push_back({.first = first,
                         .last = first + length,
                         .bytes = 1 + static_cast<int64_t>(random() % 4096)});
  }
  return lifetimes;
}

void Plan(benchmark::State& state, std::vector<Lifetime> (*make)(int32_t)) {
  const std::vector<Lifetime> lifetimes =
      make(static_cast<int32_t>(state.range(0)));
  ArenaPlan plan;
  for (auto _ : state) {
    plan = PlanArena(lifetimes);
    benchmark::DoNotOptimize(plan);
  }
  state.counters["to_live_set"] = static_cast<double>(plan.arena_bytes) /
                                  static_cast<double>(plan.live_set_bytes);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_Inference(benchmark::State& state) { Plan(state, Inference); }
void BM_Training(benchmark::State& state) { Plan(state, Training); }
void BM_Random(benchmark::State& state) { Plan(state, Random); }

#define MICA_SIZES \
  RangeMultiplier(10)->Range(1'000, 1'000'000)->Unit(benchmark::kMillisecond)
BENCHMARK(BM_Inference)->MICA_SIZES;
BENCHMARK(BM_Training)->MICA_SIZES;
BENCHMARK(BM_Random)->MICA_SIZES;

}  // namespace
}  // namespace mica
