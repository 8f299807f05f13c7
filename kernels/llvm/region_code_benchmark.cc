// How long does a region take to compile, how much memory does the compiler
// take, and is the code as fast as memory?
//
//   build/benchmarks/kernels_llvm_region_code_benchmark

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "glog/logging.h"
#include "kernels/llvm/region_testing.h"

namespace mica::region {
namespace {

constexpr int64_t kElements = int64_t{16} << 20;

constexpr const char* kScaledSum =
    "mul.f32 %0 2; add.f32 $0 %1 -> $1 | f32.dense f32.dense | f32.dense";
constexpr const char* kExp = "exp.f32 %0 -> $0 | f32.dense | f32.dense";
constexpr const char* kSilu =
    "mul.f32 %0 -1; exp.f32 $0; add.f32 $1 1; div.f32 %0 $2; mul.f32 $3 %1 "
    "-> $4 | f32.dense f32.dense | f32.dense";
constexpr const char* kTenSteps =
    "sub.f32 %0 %1; exp.f32 $0; add.f32 $1 1; div.f32 1 $2; mul.f32 $3 %0; "
    "lt.f32 $4 0; where.f32 $5 $4 %1; add.f32 $6 %1; sqrt.f32 $7; "
    "maximum.f32 $8 %0 -> $9 | f32.dense f32.one | f32.dense";
constexpr const char* kHalves =
    "mul.bf16 %0 2; add.bf16 $0 %1 -> $1 | bf16.dense bf16.dense | bf16.dense";

constexpr const char* kGelu = "gelu.f32 %0 -> $0 | f32.dense | f32.dense";
constexpr const char* kSin = "sin.f32 %0 -> $0 | f32.dense | f32.dense";
constexpr const char* kPow = "pow.f32 %0 2.5 -> $0 | f32.dense | f32.dense";
constexpr const char* kLgamma = "lgamma.f32 %0 -> $0 | f32.dense | f32.dense";
constexpr const char* kDigamma = "digamma.f32 %0 -> $0 | f32.dense | f32.dense";

const char* const kTexts[] = {kScaledSum, kExp, kSilu, kTenSteps, kHalves,
                              kGelu,      kSin, kPow,  kLgamma,   kDigamma};
const char* const kNames[] = {"scaled_sum",      "exp",    "silu", "ten_steps",
                              "bf16_scaled_sum", "gelu",   "sin",  "pow",
                              "lgamma",          "digamma"};

std::string Widest() { return LevelsHere().back(); }

void BM_Compile(benchmark::State& state) {
  const std::string text = kTexts[state.range(0)];
  for (auto _ : state) {
    const auto code = CompileText(text, Widest());
    CHECK(code.ok()) << code.status();
  }
  state.SetLabel(absl::StrCat(kNames[state.range(0)], " ", Widest()));
}
BENCHMARK(BM_Compile)
    ->DenseRange(0, std::size(kTexts) - 1)
    ->Unit(benchmark::kMillisecond);

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096;
}

// The growth by all that was compiled up to here and 100 regions more.
void BM_Memory(benchmark::State& state) {
  for (auto _ : state) {
    for (int i = 0; i < 100; ++i) {
      const auto code =
          CompileText(absl::StrCat("mul.f32 %0 ", i,
                                   "; exp.f32 $0; add.f32 $1 %0 -> $2 | "
                                   "f32.dense | f32.dense"),
                      Widest());
      CHECK(code.ok()) << code.status();
    }
  }
  state.counters["resident_mb"] =
      static_cast<double>(ResidentBytes()) / (1 << 20);
}

void BM_Copy(benchmark::State& state) {
  std::vector<float> from(kElements, 1), to(kElements, 1);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kElements * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kElements * 8);
}
BENCHMARK(BM_Copy)->Unit(benchmark::kMillisecond);

void BM_Run(benchmark::State& state) {
  const std::string text = kTexts[state.range(0)];
  const auto signature = ParseSignature(text);
  CHECK(signature.ok());
  const std::string level = LevelsHere()[state.range(2)];
  const auto code = CompileText(text, level);
  CHECK(code.ok()) << code.status();
  const int64_t n = state.range(1);
  Arrays arrays(*signature, 1, n);
  int64_t bytes = 0;
  for (const auto* list : {&signature->operands, &signature->results}) {
    for (const Array& array : *list) {
      if (array.access == Access::kOne) continue;
      bytes += n * ElementBytes(array.dtype);
    }
  }
  for (size_t k = 0; k < signature->operands.size(); ++k) {
    const int index = static_cast<int>(k);
    std::vector<char>& all = arrays.bytes(index);
    std::fill(all.begin(), all.end(), '\x3f');
  }
  const RegionFn fn = code->entry<RegionFn>();
  for (auto _ : state) {
    fn(arrays.rows());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetLabel(absl::StrCat(kNames[state.range(0)], " ", level));
}
BENCHMARK(BM_Run)
    ->Apply([](auto* runs) {
      runs->ArgsProduct(
          {benchmark::CreateDenseRange(0, std::size(kTexts) - 1, 1),
           {1000, kElements},
           benchmark::CreateDenseRange(
               0, static_cast<int64_t>(LevelsHere().size()) - 1, 1)});
    }) -> Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Memory)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mica::region
