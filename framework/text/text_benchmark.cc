// Does reading and printing a Program stay linear, at 135,000 ops too?

#include <string>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "framework/text/text.h"
#include "glog/logging.h"

namespace mica {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry& registry = *[] {
    auto* ops = new OpRegistry;
    ops->Add(OpDef("aten::add.Tensor(Tensor self, Tensor other, *, "
                   "Scalar alpha=1) -> Tensor")
                 .Infer([](const OpCall& call) {
                   return TensorTypes{call.Type(0)};
                 }));
    return ops;
  }();
  return registry;
}

std::string ChainText(int64_t ops) {
  std::string text = "program @chain(%x: f32[32,64]) {\n";
  std::string last = "x";
  for (int64_t i = 0; i < ops; ++i) {
    absl::StrAppend(&text, "  %v", i, " = aten.add.Tensor(%", last,
                    ", %x) : f32[32,64] @ \"model.py\":", i + 1, "\n");
    last = absl::StrCat("v", i);
  }
  return absl::StrCat(text, "  return %", last, "\n}\n");
}

void BM_Parse(benchmark::State& state) {
  const std::string text = ChainText(state.range(0));
  for (auto _ : state) {
    auto program = ParseProgram(text, Ops());
    CHECK(program.ok()) << program.status();
    benchmark::DoNotOptimize(program);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Parse)->Arg(1'000)->Arg(10'000)->Arg(135'000);

void BM_Print(benchmark::State& state) {
  const auto program = ParseProgram(ChainText(state.range(0)), Ops());
  for (auto _ : state) benchmark::DoNotOptimize(ToText(*program));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Print)->Arg(1'000)->Arg(10'000)->Arg(135'000);

}  // namespace
}  // namespace mica
