// Steps of optimizers.

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "framework/op/region_code.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/region.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// The argument for `param` as code refers to it.
RegionCode::Ref RefOf(const KernelRequest& request, int param) {
  const int operand = request.OperandIndex(param);
  if (operand < 0) return {.number = request.Number(param)};
  return {.kind = RegionCode::Ref::Kind::kOperand, .index = operand};
}

// mica.sgd_step as code.
class SgdCode {
 public:
  explicit SgdCode(const KernelRequest& request) : request_(request) {}

  Verdict Prepare() {
    for (int param : {3, 4, 6}) {
      if (request_.OperandIndex(param) >= 0) return No{"a rate varies"};
    }
    const double decay = request_.Number(3);
    const RegionCode::Ref momentum = RefOf(request_, 4);
    RegionCode::Ref grad = RefOf(request_, 1);
    if (request_.Bool(8)) grad = Add("neg", {grad});
    if (decay != 0) {
      grad = Add("add_scaled", {grad, RefOf(request_, 0), {.number = decay}});
    }
    int buffer = -1;
    if (request_.Has(2)) {
      const RegionCode::Ref share = {.number = 1 - request_.Number(6)};
      const RegionCode::Ref made =
          request_.Bool(9)
              ? Add("mul", {grad, {.number = 1.0}})
              : Add("add_scaled",
                    {Add("mul", {RefOf(request_, 2), momentum}), grad, share});
      buffer = made.index;
      grad =
          request_.Bool(7) ? Add("add_scaled", {grad, made, momentum}) : made;
    }
    const RegionCode::Ref self =
        Add("sub_scaled", {RefOf(request_, 0), grad, RefOf(request_, 5)});
    code_.results = {self.index};
    if (buffer >= 0) code_.results.push_back(buffer);
    return PrepareRegionCode(request_, code_);
  }

 private:
  RegionCode::Ref Add(absl::string_view op,
                      std::vector<RegionCode::Ref> operands) {
    code_.instructions.push_back({FindRegionOp(op),
                                  request_.results[0].type.dtype,
                                  std::move(operands)});
    return {.kind = RegionCode::Ref::Kind::kInstruction,
            .index = static_cast<int>(code_.instructions.size()) - 1};
  }

  const KernelRequest& request_;
  RegionCode code_;
};

Verdict PrepareSgd(const KernelRequest& request) {
  return SgdCode(request).Prepare();
}

// A number of an optimizer, converted at each launch.
struct Number {
  int arg = -1;  // -1: the constant.
  Constant constant;
  ConvertFn convert = nullptr;
};

// mica.adam_step: its numbers, found at each launch.
struct AdamState {
  AdamFn fn = nullptr;
  int64_t count = 0, bytes = 4;
  Number numbers[6];  // step, lr, beta1, beta2, weight_decay, eps.
  bool maximize = false, is_decoupled = false;
  int out_arg = 0;
  int num_threads = 1;
};

bool LaunchAdam(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const AdamState*>(state);
  double numbers[6];
  for (int i = 0; i < 6; ++i) {
    const Number& number = s.numbers[i];
    if (number.arg >= 0 && number.convert != nullptr) {
      number.convert(args[number.arg], &numbers[i], 1);
    } else {
      std::memcpy(&numbers[i],
                  number.arg >= 0 ? args[number.arg] : number.constant.bytes,
                  sizeof(double));
    }
  }
  const auto [step, lr, beta1, beta2, decay, eps] = numbers;
  AdamArgs all = {.grad_sign = s.maximize ? -1.0 : 1.0,
                  .shrink = s.is_decoupled ? 1 - lr * decay : 1,
                  .decay = s.is_decoupled ? 0 : decay,
                  .weight = 1 - beta1,
                  .beta2 = beta2,
                  .root = std::sqrt(1 - std::pow(beta2, step)),
                  .eps = eps,
                  .size = lr / (1 - std::pow(beta1, step))};
  Parallel(s.num_threads, s.count, [&](int64_t begin, int64_t end) {
    auto at = [&](int arg) {
      return static_cast<char*>(args[arg]) + begin * s.bytes;
    };
    AdamArgs part = all;
    part.self = at(0);
    part.grad = at(1);
    part.avg = at(2);
    part.avg_sq = at(3);
    part.new_self = at(s.out_arg);
    part.new_avg = at(s.out_arg + 1);
    part.new_avg_sq = at(s.out_arg + 2);
    part.n = end - begin;
    s.fn(part);
  });
  return true;
}

Verdict PrepareAdam(const KernelRequest& request) {
  AdamState s;
  const TensorType& self = request.results[0].type;
  const auto elem = ElemOf(self.dtype);
  if (elem != Elem::kF32 && elem != Elem::kF64) return No{"no vector loop"};
  if (!self.is_dense()) return No{"the result has gaps"};
  auto fits = [&](const Operand& operand) {
    return operand.type.EffectiveStrides() == self.EffectiveStrides();
  };
  for (int i = 0; i < 4; ++i) {
    if (!fits(request.operands[i])) return No{"operands lie differently"};
  }
  for (const Operand& result : request.results) {
    if (!fits(result) || !result.is_used)
      return No{"a result lies differently"};
  }
  for (int i = 0; i < 6; ++i) {
    const int operand = request.OperandIndex(4 + i);
    if (operand < 0) {
      s.numbers[i].constant = MakeConstant(Elem::kF64, request.Number(4 + i));
      continue;
    }
    const auto own = ElemOf(request.operands[operand].type.dtype);
    if (!own.has_value()) return No{"no conversion of a number"};
    s.numbers[i].arg = operand;
    if (*own != Elem::kF64) {
      s.numbers[i].convert =
          Simd().convert[static_cast<int>(*own)][static_cast<int>(Elem::kF64)];
    }
  }
  s.fn = Simd().adam[static_cast<int>(*elem)];
  s.count = self.num_elements();
  s.bytes = kElemBytes[static_cast<int>(*elem)];
  s.maximize = request.Bool(10);
  s.is_decoupled = request.Bool(11);
  s.out_arg = static_cast<int>(request.operands.size());
  s.num_threads = UsefulThreads(request.num_threads, s.count);
  Prepared prepared;
  prepared.launch = LaunchAdam;
  prepared.never_fails = true;
  // All elements are read before any at their place is written.
  prepared.inplace_operands = 0xf;
  prepared.more_inplace = {0xf, 0xf};
  prepared.state = std::make_shared<const AdamState>(s);
  return prepared;
}

}  // namespace

void RegisterOptimizerSteps(KernelRegistry& registry) {
  constexpr DType kFloats[] = {DType::kF32, DType::kF64};
  registry.Add("mica.adam_step", kFloats, KernelRank::kFast,
               {"cpu.adam_step", PrepareAdam});
  registry.Add("mica.sgd_step", kFloats, KernelRank::kFast,
               {"cpu.sgd_step", PrepareSgd});
}

}  // namespace mica::cpu
