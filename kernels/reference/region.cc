// Elementwise regions, an instruction at a time for each element.

#include <cmath>
#include <string>
#include <vector>

#include "framework/op/region_code.h"
#include "glog/logging.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

template <typename C>
using ElementFn = C (*)(const C* x);

template <typename C>
struct NamedFn {
  absl::string_view name;
  ElementFn<C> fn;
};

template <typename C>
ElementFn<C> FnNamed(absl::string_view name) {
  static constexpr NamedFn<C> kFns[] = {
      {"neg", [](const C* x) { return -x[0]; }},
      {"abs", [](const C* x) { return std::fabs(x[0]); }},
      {"relu", [](const C* x) { return Larger(x[0], C{0}); }},
      {"square", [](const C* x) { return x[0] * x[0]; }},
      {"cube", [](const C* x) { return x[0] * x[0] * x[0]; }},
      {"reciprocal", [](const C* x) { return 1 / x[0]; }},
      {"sqrt", [](const C* x) { return std::sqrt(x[0]); }},
      {"rsqrt", [](const C* x) { return 1 / std::sqrt(x[0]); }},
      {"exp", [](const C* x) { return std::exp(x[0]); }},
      {"tanh", [](const C* x) { return std::tanh(x[0]); }},
      {"sigmoid", [](const C* x) { return Sigmoid(x[0]); }},
      {"silu", [](const C* x) { return x[0] / (1 + std::exp(-x[0])); }},
      {"add", [](const C* x) { return x[0] + x[1]; }},
      {"sub", [](const C* x) { return x[0] - x[1]; }},
      {"mul", [](const C* x) { return x[0] * x[1]; }},
      {"div", [](const C* x) { return x[0] / x[1]; }},
      {"maximum", [](const C* x) { return Larger(x[0], x[1]); }},
      {"minimum", [](const C* x) { return Smaller(x[0], x[1]); }},
      {"add_scaled", [](const C* x) { return x[0] + x[2] * x[1]; }},
      {"sub_scaled", [](const C* x) { return x[0] - x[2] * x[1]; }},
      {"lerp",
       [](const C* x) {
         const C way = x[1] - x[0];
         return std::fabs(x[2]) < C{0.5} ? x[0] + x[2] * way
                                         : x[1] - way * (1 - x[2]);
       }},
      {"tanh_backward", [](const C* x) { return x[0] * (1 - x[1] * x[1]); }},
      {"addcmul", [](const C* x) { return x[0] + x[3] * x[1] * x[2]; }},
      {"addcdiv", [](const C* x) { return x[0] + x[3] * x[1] / x[2]; }},
  };
  for (const NamedFn<C>& named : kFns) {
    if (named.name == name) return named.fn;
  }
  LOG(FATAL) << "no function for " << name;
  return nullptr;
}

struct Region {
  RegionCode code;
  std::vector<Lane> operands, results;
  std::vector<Dims> strides;  // Of the operands, then of the results.
};

template <typename C>
void Run(const Region& region, void* const* args) {
  using Kind = RegionCode::Ref::Kind;
  const size_t num_operands = region.operands.size();
  std::vector<ElementFn<C>> fns;
  for (const auto& instruction : region.code.instructions) {
    fns.push_back(FnNamed<C>(instruction.op->name));
  }
  std::vector<C> in(num_operands), made(fns.size());
  for (Odometer at(region.results[0].dims, region.strides); !at.done();
       at.Next()) {
    for (size_t i = 0; i < num_operands; ++i) {
      in[i] = region.operands[i].Load<C>(args, at.offset(static_cast<int>(i)));
    }
    for (size_t i = 0; i < fns.size(); ++i) {
      C x[4] = {};
      const auto& refs = region.code.instructions[i].operands;
      for (size_t j = 0; j < refs.size(); ++j) {
        x[j] = refs[j].kind == Kind::kOperand ? in[refs[j].index]
               : refs[j].kind == Kind::kInstruction
                   ? made[refs[j].index]
                   : static_cast<C>(refs[j].number);
      }
      made[i] = fns[i](x);
    }
    for (size_t r = 0; r < region.results.size(); ++r) {
      if (region.results[r].IsUnused(args)) continue;
      region.results[r].Store(args,
                              at.offset(static_cast<int>(num_operands + r)),
                              made[region.code.results[r]]);
    }
  }
}

Verdict PrepareRegion(const KernelRequest& request) {
  auto code = RegionCode::Parse(request.String(1));
  CHECK(code.ok()) << code.status();  // Inference has parsed it.
  Region region = {.code = *std::move(code)};
  for (size_t r = 0; r < request.results.size(); ++r) {
    region.results.push_back(ResultLane(request, static_cast<int>(r)));
  }
  for (size_t i = 0; i < request.operands.size(); ++i) {
    region.operands.push_back(OperandLane(request, 0, static_cast<int>(i)));
    region.strides.push_back(
        BroadcastStrides(region.operands.back(), region.results[0].dims));
  }
  for (const Lane& result : region.results) {
    region.strides.push_back(result.strides);
  }
  return RunBody([region](void* const* args, LaunchContext&) {
    if (region.results[0].dtype == DType::kF64) {
      Run<double>(region, args);
    } else {
      Run<float>(region, args);
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceRegions(KernelRegistry& registry) {
  AddReference(registry, "mica.elementwise", PrepareRegion);
}

}  // namespace mica
