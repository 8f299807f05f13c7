// Kernels that move elements: copies, conversions, joins, fills.

#include "kernels/cpu/movement.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/strided_copy.h"

namespace mica::cpu {
namespace {

// Copies and conversions.

void ConvertRow(const PointwiseLoop& loop, const void* const* in, void* out,
                int64_t n) {
  loop.unary(in[0], out, n);
}

// A dense copy in one piece, of the number of bytes in its state.
bool LaunchMemcpy(const void* state, void* const* args, LaunchContext&) {
  const int64_t bytes = *static_cast<const int64_t*>(state);
  // Tensors without elements may have no memory, which memcpy() doesn't bear.
  if (args[0] != args[1] && bytes > 0) {
    std::memcpy(args[1], args[0], static_cast<size_t>(bytes));
  }
  return true;
}

struct CopyState {
  StridedCopy copy;
  int num_threads = 1;
};

bool LaunchCopy(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const CopyState*>(state);
  s.copy.Run(args[0], args[1], s.num_threads);
  return true;
}

// A copy whose elements stay as they are.
Prepared CopyOf(const KernelRequest& request, const StridedCopy& copy) {
  const TensorType& from = request.operands[0].type;
  const TensorType& to = request.results[0].type;
  Prepared prepared;
  prepared.launch = LaunchCopy;
  prepared.never_fails = true;
  if (from.dims == to.dims &&
      from.EffectiveStrides() == to.EffectiveStrides() && !from.is_scalar) {
    prepared.inplace_operands = 1;
  }
  prepared.state = std::make_shared<const CopyState>(CopyState{
      .copy = copy,
      .num_threads = UsefulThreads(request.num_threads, to.num_elements())});
  return prepared;
}

}  // namespace

Verdict PrepareCopy(const KernelRequest& request) {
  const TensorType& from = request.operands[0].type;
  const TensorType& to = request.results[0].type;
  const bool same_place = from.dims == to.dims && from.is_dense() &&
                          from.EffectiveStrides() == to.EffectiveStrides();
  if (from.dtype == to.dtype && same_place && !from.is_scalar) {
    Prepared prepared;
    prepared.launch = LaunchMemcpy;
    prepared.inplace_operands = 1;
    prepared.state = std::make_shared<const int64_t>(to.num_bytes());
    return prepared;
  }
  if (const auto copy = StridedCopy::Of(from, to))
    return CopyOf(request, *copy);
  const auto in = ElemOf(from.dtype), out = ElemOf(to.dtype);
  if (!in.has_value() || !out.has_value()) return No{"no vector loop"};
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = ConvertRow;
  loop->unary = Simd().convert[static_cast<int>(*in)][static_cast<int>(*out)];
  const Source sources[] = {{.arg = 0, .type = &from}};
  constexpr bool kKeeps[] = {true};
  if (auto no = LayOut(request, sources, *in, kKeeps, *loop)) return No{*no};
  return Finish(request, sources, std::move(loop));
}

namespace {

// Joins.

struct CatState {
  int num_inputs = 0;
  int64_t outer = 1;
  int64_t row_bytes = 0;             // Of the result, for each outer index.
  std::vector<int64_t> piece_bytes;  // Of each operand.
  int num_threads = 1;
};

void CatRows(const CatState& s, void* const* args, int64_t begin, int64_t end) {
  auto* out = static_cast<char*>(args[s.num_inputs]) + begin * s.row_bytes;
  for (int64_t o = begin; o < end; ++o) {
    for (int i = 0; i < s.num_inputs; ++i) {
      const int64_t bytes = s.piece_bytes[i];
      if (bytes == 0) continue;
      std::memcpy(out, static_cast<const char*>(args[i]) + o * bytes,
                  static_cast<size_t>(bytes));
      out += bytes;
    }
  }
}

bool LaunchCat(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const CatState*>(state);
  if (s.outer > 1 || s.num_threads == 1) {
    Parallel(s.num_threads, s.outer,
             [&](int64_t begin, int64_t end) { CatRows(s, args, begin, end); });
    return true;
  }
  // Operands one behind the other: each is cut for the threads.
  constexpr int64_t kBlock = 4096;
  auto* out = static_cast<char*>(args[s.num_inputs]);
  for (int i = 0; i < s.num_inputs; ++i) {
    const int64_t bytes = s.piece_bytes[i];
    const auto* in = static_cast<const char*>(args[i]);
    Parallel(s.num_threads, (bytes + kBlock - 1) / kBlock,
             [&](int64_t begin, int64_t end) {
               const int64_t from = begin * kBlock;
               const int64_t to = std::min(end * kBlock, bytes);
               if (from >= to) return;
               std::memcpy(out + from, in + from,
                           static_cast<size_t>(to - from));
             });
    out += bytes;
  }
  return true;
}

// The axes of a dense type, outermost in memory first.
std::vector<int> MemoryOrder(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  std::vector<int> order(type.rank());
  for (int i = 0; i < type.rank(); ++i) order[i] = i;
  // An axis of one element lies anywhere.
  auto step = [&](int i) {
    return type.dims[i] == 1 ? std::numeric_limits<int64_t>::max() : strides[i];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return step(a) > step(b); });
  return order;
}

// A dense type of these dims whose axes lie in `order`.
TensorType InOrder(TensorType type, const std::vector<int>& order) {
  type.strides.assign(type.rank(), 1);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    type.strides[order[i]] = step;
    step *= type.dims[order[i]];
  }
  return type;
}

Verdict PrepareCat(const KernelRequest& request) {
  const TensorType& out = request.results[0].type;
  const int rank = out.rank();
  if (request.OperandIndex(1) >= 0 || rank == 0) return No{"no axis"};
  const int64_t given = request.Has(1) ? request.Int(1) : 0;
  const int64_t axis = given < 0 ? given + rank : given;
  const std::vector<int> order = MemoryOrder(out);
  if (!(InOrder(out, order) == out)) return No{"the result has gaps"};
  CatState state;
  state.num_inputs = static_cast<int>(request.operands.size());
  int64_t inner = ElementBytes(out.dtype);
  bool is_outer = true;
  for (int i : order) {
    if (i == axis) {
      is_outer = false;
    } else {
      (is_outer ? state.outer : inner) *= out.dims[i];
    }
  }
  for (const Operand& operand : request.operands) {
    const TensorType& type = operand.type;
    if (type.dtype != out.dtype) return No{"an operand converts"};
    // An empty tensor of one dimension joins any others.
    const bool is_empty = type.num_elements() == 0;
    if (!is_empty && type.rank() != rank) return No{"ranks differ"};
    if (!is_empty && !(InOrder(type, order) == type)) {
      return No{"an operand lies otherwise than the result"};
    }
    state.piece_bytes.push_back(is_empty ? 0 : type.dims[axis] * inner);
    state.row_bytes += state.piece_bytes.back();
  }
  // A call of memcpy() for each would take longest.
  constexpr int64_t kShort = 32;
  if (state.outer > 1 && state.row_bytes <= kShort * state.num_inputs) {
    return No{"pieces are short"};
  }
  state.num_threads = UsefulThreads(request.num_threads, out.num_elements());
  Prepared prepared;
  prepared.launch = LaunchCat;
  prepared.state = std::make_shared<const CatState>(std::move(state));
  return prepared;
}

// Fills.

struct FillState {
  UnaryFn fill = nullptr;
  Constant value;
  int64_t n = 0;
  int out_arg = 0;
};

bool LaunchFill(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FillState*>(state);
  s.fill(s.value.bytes, args[s.out_arg], s.n);
  return true;
}

// `number` is the position of the value, or -1 - the value itself.
Verdict PrepareFill(const KernelRequest& request, int number) {
  const TensorType& out = request.results[0].type;
  const auto elem = ElemOf(out.dtype);
  if (!elem.has_value() || !out.is_dense()) return No{"no vector loop"};
  FillState state{.n = out.num_elements(),
                  .out_arg = static_cast<int>(request.operands.size())};
  if (number < 0) {
    state.value = MakeConstant(*elem, int64_t{-1 - number});
  } else if (request.OperandIndex(number) >= 0) {
    return No{"the value varies"};
  } else {
    const Argument& argument = (*request.arguments)[number];
    const auto* integer = std::get_if<int64_t>(&argument);
    state.value = integer != nullptr
                      ? MakeConstant(*elem, *integer)
                      : MakeConstant(*elem, request.Number(number));
  }
  state.fill = FillLoopOf(ElementBytes(out.dtype));
  Prepared prepared;
  prepared.launch = LaunchFill;
  prepared.never_fails = true;
  // What is filled is given first, but not read.
  if (!request.operands.empty() && request.operands[0].type == out) {
    prepared.inplace_operands = 1;
  }
  prepared.state = std::make_shared<const FillState>(state);
  return prepared;
}

// Whole numbers at equal distances.
struct RangeState {
  int64_t first = 0, step = 1, n = 0;
  int out_arg = 0;
};

template <typename T>
bool LaunchRange(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const RangeState*>(state);
  auto* out = static_cast<T*>(args[s.out_arg]);
  for (int64_t i = 0; i < s.n; ++i) {
    out[i] = static_cast<T>(s.first + s.step * i);
  }
  return true;
}

// `first` and `step` are parameters, or -1 for 0 and 1.
Verdict PrepareRange(const KernelRequest& request, int first, int step) {
  // Every float up to that is exact, whatever it is made of.
  constexpr int64_t kMost = 1 << 24;
  const TensorType& out = request.results[0].type;
  RangeState state{.n = out.num_elements(),
                   .out_arg = static_cast<int>(request.operands.size())};
  for (const auto& [param, to] :
       {std::pair(first, &state.first), std::pair(step, &state.step)}) {
    if (param < 0) continue;
    const auto* given = std::get_if<int64_t>(&(*request.arguments)[param]);
    if (given == nullptr) return No{"not of whole numbers that are known"};
    if (*given < -kMost || *given > kMost) return No{"large numbers"};
    *to = *given;
  }
  if (!out.is_dense() || state.n > kMost) return No{"large numbers"};
  const int64_t last = state.first + state.step * state.n;
  if (last < -kMost || last > kMost) return No{"large numbers"};
  Prepared prepared;
  if (out.dtype == DType::kI64) {
    prepared.launch = LaunchRange<int64_t>;
  } else if (out.dtype == DType::kF32) {
    prepared.launch = LaunchRange<float>;
  } else {
    return No{"no loop for this dtype"};
  }
  prepared.state = std::make_shared<const RangeState>(state);
  return prepared;
}

bool LaunchKeep(const void*, void* const*, LaunchContext&) { return true; }

Verdict PrepareKeep(const KernelRequest&) {
  return Prepared{.launch = LaunchKeep, .never_fails = true};
}

PrepareFn FillOf(int number) {
  return [number](const KernelRequest& request) {
    return PrepareFill(request, number);
  };
}

}  // namespace

void RegisterMovement(KernelRegistry& registry) {
  auto add = [&registry](absl::string_view op, absl::string_view name,
                         PrepareFn prepare) {
    registry.Add(op, kMovedTypes, KernelRank::kFast,
                 {std::string(name), std::move(prepare)});
  };
  add("aten._to_copy", "cpu.copy", PrepareCopy);
  add("aten.clone", "cpu.copy", PrepareCopy);
  add("mica.send", "cpu.copy", PrepareCopy);
  add("mica.keep", "cpu.keep", PrepareKeep);
  // A whole number is its own floor.
  for (absl::string_view op : {"floor", "ceil", "trunc", "round"}) {
    registry.Add(
        absl::StrCat("aten.", op),
        {DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64},
        KernelRank::kFast, {"cpu.copy", PrepareCopy});
  }
  add("aten.cat", "cpu.cat", PrepareCat);
  constexpr int kZero = -1, kOne = -2;
  const struct {
    absl::string_view op;
    int first, step;
  } ranges[] = {{"aten.arange", -1, -1},
                {"aten.arange.start", 0, -1},
                {"aten.arange.start_step", 0, 2}};
  for (const auto& range : ranges) {
    registry.Add(range.op, {DType::kI64, DType::kF32}, KernelRank::kFast,
                 {"cpu.arange", [range](const KernelRequest& request) {
                    return PrepareRange(request, range.first, range.step);
                  }});
  }
  add("aten.zeros", "cpu.fill", FillOf(kZero));
  add("aten.ones", "cpu.fill", FillOf(kOne));
  add("aten.zeros_like", "cpu.fill", FillOf(kZero));
  add("aten.zero", "cpu.fill", FillOf(kZero));
  add("aten.fill.Scalar", "cpu.fill", FillOf(1));
  add("aten.ones_like", "cpu.fill", FillOf(kOne));
  add("aten.new_zeros", "cpu.fill", FillOf(kZero));
  add("aten.new_ones", "cpu.fill", FillOf(kOne));
  add("aten.full", "cpu.fill", FillOf(1));
  add("aten.full_like", "cpu.fill", FillOf(1));
  add("aten.new_full", "cpu.fill", FillOf(2));
}

}  // namespace mica::cpu
