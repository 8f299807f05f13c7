// Elementwise regions: code over tiles that stay in the first-level cache, one
// vector loop an instruction.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/op/region_code.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr int64_t kTileBytes = 2048;
constexpr int kMaxRegisters = 12;
constexpr int kMaxPointers = 40;  // Operands, results, registers, numbers.

// An operand of one element, converted at each launch.
struct Number {
  int arg = -1;  // -1: the constant.
  Constant constant;
  ConvertFn convert = nullptr;
};

// Slots are what instructions name: arrays in memory, tile registers, numbers.
struct Slot {
  enum class Kind : uint8_t { kArray, kRegister, kNumber };
  Kind kind = Kind::kNumber;
  int index = 0;  // A launch argument, a register, an entry of `numbers`.
};

struct Instruction {
  UnaryFn unary = nullptr;
  BinaryFn binary = nullptr;
  TernaryFn ternary = nullptr;
  bool negates = false;  // The number.
  int in[3] = {0, 0, 0};
  int number = 0;  // Slot of alpha.
  int out = 0;
};

struct RegionState {
  Elem elem = Elem::kF32;
  int64_t bytes = 4;  // Of an element.
  int64_t count = 0;
  int num_threads = 1;
  std::vector<Slot> slots;
  std::vector<Number> numbers;
  std::vector<Instruction> instructions;
};

template <typename T>
void Negate(const void* from, void* to) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  value = -value;
  std::memcpy(to, &value, sizeof(value));
}

// Elements begin..end.
void RunTiles(const RegionState& s, void* const* args, const Constant* numbers,
              int64_t begin, int64_t end) {
  alignas(64) char registers[kMaxRegisters][kTileBytes];
  char* at[kMaxPointers];
  const int num_slots = static_cast<int>(s.slots.size());
  for (int i = 0; i < num_slots; ++i) {
    const Slot& slot = s.slots[i];
    switch (slot.kind) {
      case Slot::Kind::kArray:
        at[i] = static_cast<char*>(args[slot.index]) + begin * s.bytes;
        break;
      case Slot::Kind::kRegister:
        at[i] = registers[slot.index];
        break;
      case Slot::Kind::kNumber:
        at[i] = const_cast<char*>(
            reinterpret_cast<const char*>(numbers[slot.index].bytes));
        break;
    }
  }
  const int64_t tile = kTileBytes / s.bytes;
  for (int64_t start = begin; start < end; start += tile) {
    const int64_t n = std::min(tile, end - start);
    for (const Instruction& step : s.instructions) {
      if (step.unary != nullptr) {
        step.unary(at[step.in[0]], at[step.out], n);
      } else if (step.binary != nullptr) {
        step.binary(at[step.in[0]], at[step.in[1]], at[step.out], n,
                    at[step.number]);
      } else {
        step.ternary(at[step.in[0]], at[step.in[1]], at[step.in[2]],
                     at[step.out], n, at[step.number]);
      }
    }
    for (int i = 0; i < num_slots; ++i) {
      if (s.slots[i].kind == Slot::Kind::kArray) at[i] += n * s.bytes;
    }
  }
}

bool LaunchRegion(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const RegionState*>(state);
  Constant numbers[kMaxPointers];
  for (size_t i = 0; i < s.numbers.size(); ++i) {
    const Number& number = s.numbers[i];
    if (number.arg < 0) {
      numbers[i] = number.constant;
    } else if (number.convert != nullptr) {
      number.convert(args[number.arg], numbers[i].bytes, 1);
    } else {
      std::memcpy(numbers[i].bytes, args[number.arg],
                  static_cast<size_t>(s.bytes));
    }
  }
  // "sub_scaled" is "add_scaled" of the negative, which has its own entry
  // behind the number.
  for (const Instruction& step : s.instructions) {
    if (!step.negates) continue;
    const int entry = s.slots[step.number].index;
    if (s.elem == Elem::kF32) {
      Negate<float>(numbers[entry - 1].bytes, numbers[entry].bytes);
    } else {
      Negate<double>(numbers[entry - 1].bytes, numbers[entry].bytes);
    }
  }
  Parallel(s.num_threads, s.count, [&](int64_t begin, int64_t end) {
    RunTiles(s, args, numbers, begin, end);
  });
  return true;
}

struct UnaryName {
  absl::string_view name;
  Unary op;
};
constexpr UnaryName kUnaries[] = {
    {"neg", Unary::kNeg},         {"abs", Unary::kAbs},
    {"relu", Unary::kRelu},       {"square", Unary::kSquare},
    {"cube", Unary::kCube},       {"reciprocal", Unary::kReciprocal},
    {"sqrt", Unary::kSqrt},       {"rsqrt", Unary::kRsqrt},
    {"exp", Unary::kExp},         {"tanh", Unary::kTanh},
    {"sigmoid", Unary::kSigmoid}, {"silu", Unary::kSilu},
};
struct BinaryName {
  absl::string_view name;
  Binary op;
};
constexpr BinaryName kBinaries[] = {
    {"add", Binary::kAdd},
    {"sub", Binary::kSub},
    {"mul", Binary::kMul},
    {"div", Binary::kDiv},
    {"maximum", Binary::kMaximum},
    {"minimum", Binary::kMinimum},
    {"add_scaled", Binary::kAddScaled},
    {"sub_scaled", Binary::kAddScaled},
    {"lerp", Binary::kLerp},
    {"tanh_backward", Binary::kTanhBackward},
};

// Turns code into slots and loops.
class RegionBuilder {
 public:
  RegionBuilder(const KernelRequest& request, const RegionCode& code)
      : request_(request), code_(code) {}

  // The reason why it can't.
  std::optional<std::string> Build(RegionState& state) {
    const TensorType& self = request_.results[0].type;
    const auto elem = ElemOf(self.dtype);
    if (elem != Elem::kF32 && elem != Elem::kF64) return "no vector loop";
    if (!self.is_dense()) return "the result has gaps";
    s_ = &state;
    s_->elem = *elem;
    s_->bytes = kElemBytes[static_cast<int>(*elem)];
    s_->count = self.num_elements();
    if (auto no = AddOperands(self)) return no;
    FindLastUses();
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      if (auto no = AddInstruction(static_cast<int>(i))) return no;
    }
    if (s_->slots.size() > kMaxPointers) return "too many operands";
    return std::nullopt;
  }

  // For result r the operands whose bytes it may take: those that no
  // instruction behind the result's own reads.
  uint32_t InplaceOf(int result) const {
    uint32_t bits = 0;
    const TensorType& self = request_.results[0].type;
    for (size_t i = 0; i < request_.operands.size() && i < 32; ++i) {
      const TensorType& type = request_.operands[i].type;
      const bool is_array = IsArray(type) && type.dtype == self.dtype;
      if (is_array && last_reads_[i] <= code_.results[result]) bits |= 1u << i;
    }
    return bits;
  }

 private:
  using Ref = RegionCode::Ref;

  bool IsArray(const TensorType& type) const {
    const TensorType& self = request_.results[0].type;
    return type.dtype == self.dtype && !type.is_scalar &&
           type.dims == self.dims &&
           type.EffectiveStrides() == self.EffectiveStrides();
  }

  int AddSlot(Slot slot) {
    s_->slots.push_back(slot);
    return static_cast<int>(s_->slots.size()) - 1;
  }

  int AddNumber(Number number) {
    s_->numbers.push_back(number);
    return AddSlot({.kind = Slot::Kind::kNumber,
                    .index = static_cast<int>(s_->numbers.size()) - 1});
  }

  std::optional<std::string> AddOperands(const TensorType& self) {
    for (const Operand& result : request_.results) {
      if (result.is_used && !IsArray(result.type)) {
        return "results lie differently";
      }
    }
    for (size_t i = 0; i < request_.operands.size(); ++i) {
      const TensorType& type = request_.operands[i].type;
      const int arg = static_cast<int>(i);
      if (IsArray(type)) {
        operand_slots_.push_back(
            AddSlot({.kind = Slot::Kind::kArray, .index = arg}));
        continue;
      }
      if (type.num_elements() != 1 || self.num_elements() == 0) {
        return "operands lie differently";
      }
      const auto own = ElemOf(type.dtype);
      if (!own.has_value()) return "no conversion of a number";
      operand_slots_.push_back(AddNumber(
          {.arg = arg,
           .convert = *own == s_->elem
                          ? nullptr
                          : Simd().convert[static_cast<int>(*own)]
                                          [static_cast<int>(s_->elem)]}));
    }
    return std::nullopt;
  }

  void FindLastUses() {
    last_reads_.assign(request_.operands.size(), -1);
    last_uses_.assign(code_.instructions.size(), -1);
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      for (const Ref& ref : code_.instructions[i].operands) {
        if (ref.kind == Ref::Kind::kOperand) {
          last_reads_[ref.index] = static_cast<int>(i);
        } else if (ref.kind == Ref::Kind::kInstruction) {
          last_uses_[ref.index] = static_cast<int>(i);
        }
      }
    }
  }

  int SlotOf(const Ref& ref) {
    if (ref.kind == Ref::Kind::kOperand) return operand_slots_[ref.index];
    if (ref.kind == Ref::Kind::kInstruction) return made_slots_[ref.index];
    return AddNumber({.constant = MakeConstant(s_->elem, ref.number)});
  }

  bool IsNumber(int slot) const {
    return s_->slots[slot].kind == Slot::Kind::kNumber;
  }

  std::optional<std::string> AddInstruction(int id) {
    const RegionCode::Instruction& from = code_.instructions[id];
    Instruction to;
    int slots[4] = {};
    for (size_t i = 0; i < from.operands.size(); ++i) {
      slots[i] = SlotOf(from.operands[i]);
    }
    const int count = from.op->num_elements;
    std::copy(slots, slots + count, to.in);
    if (from.op->num_numbers > 0) {
      to.number = slots[count];
      if (!IsNumber(to.number)) return "a factor is an array";
    }
    if (from.op->name == "sub_scaled") {
      // The negative stands behind the number.
      const Number number = s_->numbers[s_->slots[to.number].index];
      AddNumber(number);
      to.number = AddNumber({});
      to.negates = true;
    }
    if (auto no = SetLoop(from.op->name, to)) return no;
    Release(id);
    return SetOut(id, to);
  }

  std::optional<std::string> SetLoop(absl::string_view name,
                                     Instruction& to) const {
    const int elem = static_cast<int>(s_->elem);
    for (const UnaryName& unary : kUnaries) {
      if (unary.name != name) continue;
      to.unary = Simd().unary[static_cast<int>(unary.op)][elem];
      if (IsNumber(to.in[0])) return "a function of a number";
    }
    for (const BinaryName& binary : kBinaries) {
      if (binary.name != name) continue;
      if (IsNumber(to.in[0]) && IsNumber(to.in[1])) return "only numbers";
      const Form form = IsNumber(to.in[0])   ? Form::kSV
                        : IsNumber(to.in[1]) ? Form::kVS
                                             : Form::kVV;
      to.binary = Simd().binary[static_cast<int>(binary.op)][elem]
                               [static_cast<int>(form)];
    }
    if (name == "addcmul" || name == "addcdiv") {
      const Ternary op =
          name == "addcmul" ? Ternary::kAddcmul : Ternary::kAddcdiv;
      for (int slot : to.in) {
        if (IsNumber(slot)) return "a number among arrays";
      }
      to.ternary = Simd().ternary[static_cast<int>(op)][elem];
    }
    if (to.unary == nullptr && to.binary == nullptr && to.ternary == nullptr) {
      return absl::StrCat("no vector loop for ", name);
    }
    return std::nullopt;
  }

  // Registers whose last use is instruction `id` may be taken by its result.
  void Release(int id) {
    for (int i = 0; i < id; ++i) {
      const Slot& slot = s_->slots[made_slots_[i]];
      if (last_uses_[i] == id && slot.kind == Slot::Kind::kRegister) {
        free_.push_back(slot.index);
      }
    }
  }

  std::optional<std::string> SetOut(int id, Instruction& to) {
    const auto result =
        std::find(code_.results.begin(), code_.results.end(), id) -
        code_.results.begin();
    if (result < static_cast<int64_t>(code_.results.size()) &&
        request_.results[result].is_used) {
      to.out = AddSlot(
          {.kind = Slot::Kind::kArray,
           .index = static_cast<int>(request_.operands.size() + result)});
    } else {
      if (free_.empty()) free_.push_back(num_registers_++);
      if (num_registers_ > kMaxRegisters) return "too many registers";
      to.out = AddSlot({.kind = Slot::Kind::kRegister, .index = free_.back()});
      free_.pop_back();
      // A result that nobody reads.
      if (last_uses_[id] < 0) free_.push_back(s_->slots[to.out].index);
    }
    made_slots_.push_back(to.out);
    s_->instructions.push_back(to);
    return std::nullopt;
  }

  const KernelRequest& request_;
  const RegionCode& code_;
  RegionState* s_ = nullptr;
  std::vector<int> operand_slots_, made_slots_;
  std::vector<int> last_reads_, last_uses_;
  std::vector<int> free_;
  int num_registers_ = 0;
};

// `code` over the request's operands and results.
Verdict PrepareCode(const KernelRequest& request, const RegionCode& code) {
  auto state = std::make_shared<RegionState>();
  RegionBuilder builder(request, code);
  if (auto no = builder.Build(*state)) return No{*no};
  state->num_threads = UsefulThreads(request.num_threads, state->count);
  Prepared prepared;
  prepared.launch = LaunchRegion;
  prepared.never_fails = true;
  prepared.inplace_operands = builder.InplaceOf(0);
  for (size_t r = 1; r < code.results.size(); ++r) {
    prepared.more_inplace.push_back(builder.InplaceOf(static_cast<int>(r)));
  }
  prepared.state = std::move(state);
  return prepared;
}

Verdict PrepareRegion(const KernelRequest& request) {
  const auto code = RegionCode::Parse(request.String(1));
  if (!code.ok()) return No{"malformed code"};
  return PrepareCode(request, *code);
}

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
    return PrepareCode(request_, code_);
  }

 private:
  RegionCode::Ref Add(absl::string_view op,
                      std::vector<RegionCode::Ref> operands) {
    code_.instructions.push_back({FindRegionOp(op), std::move(operands)});
    return {.kind = RegionCode::Ref::Kind::kInstruction,
            .index = static_cast<int>(code_.instructions.size()) - 1};
  }

  const KernelRequest& request_;
  RegionCode code_;
};

Verdict PrepareSgd(const KernelRequest& request) {
  return SgdCode(request).Prepare();
}

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

void RegisterRegions(KernelRegistry& registry) {
  constexpr DType kFloats[] = {DType::kF32, DType::kF64};
  registry.Add("mica.elementwise", kFloats, KernelRank::kFast,
               {"cpu.elementwise", PrepareRegion});
  registry.Add("mica.adam_step", kFloats, KernelRank::kFast,
               {"cpu.adam_step", PrepareAdam});
  registry.Add("mica.sgd_step", kFloats, KernelRank::kFast,
               {"cpu.sgd_step", PrepareSgd});
}

}  // namespace mica::cpu
