// Running sums and products along one axis of row-major operands.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"

namespace mica::cpu {
namespace {

// Lanes that run beside each other: neighbours in memory, or rows, whose sums
// then don't wait for each other. Rows of a page's length lie in one set of the
// first-level cache, which has room for eight lines, those of the result too.
constexpr int64_t kMostLanes = 256;
constexpr int64_t kMostRows = 4;

struct ScanState {
  int64_t outer = 1, scanned = 1, inner = 1;
  int num_threads = 1;
};

template <typename T>
struct PlusOf {
  static constexpr T kStart = 0;
  static T Of(T a, T b) { return a + b; }
};

template <typename T>
struct TimesOf {
  static constexpr T kStart = 1;
  static T Of(T a, T b) { return a * b; }
};

// Floating-point numbers are summed in double, as in PyTorch; integers wrap.
template <typename To>
using RunningOf =
    std::conditional_t<std::is_floating_point_v<To>, double, uint64_t>;

// Lanes that are neighbours: element i of all of them lies at i * step.
template <typename From, typename To, template <typename> typename Fold>
void ScanColumns(const From* x, To* out, int64_t lanes, int64_t count,
                 int64_t step) {
  using Running = RunningOf<To>;
  Running running[kMostLanes];
  std::fill_n(running, lanes, Fold<Running>::kStart);
  for (int64_t i = 0; i < count; ++i, x += step, out += step) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<Running>(x[lane]);
      running[lane] = Fold<Running>::Of(running[lane], value);
      out[lane] = static_cast<To>(running[lane]);
    }
  }
}

// Rows of `count` elements, one behind the other.
template <typename From, typename To, template <typename> typename Fold,
          int64_t kRows>
void ScanRows(const From* x, To* out, int64_t count) {
  using Running = RunningOf<To>;
  Running running[kRows];
  std::fill_n(running, kRows, Fold<Running>::kStart);
  for (int64_t i = 0; i < count; ++i) {
    // All are read before any is written: elements of several rows may lie at
    // the same place of their pages, and a read there waits for a write.
    for (int64_t row = 0; row < kRows; ++row) {
      const auto value = static_cast<Running>(x[row * count + i]);
      running[row] = Fold<Running>::Of(running[row], value);
    }
    for (int64_t row = 0; row < kRows; ++row) {
      out[row * count + i] = static_cast<To>(running[row]);
    }
  }
}

template <typename From, typename To, template <typename> typename Fold>
bool LaunchColumns(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ScanState*>(state);
  const int64_t blocks = (s.inner + kMostLanes - 1) / kMostLanes;
  Parallel(s.num_threads, s.outer * blocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t lane = i % blocks * kMostLanes;
      const int64_t at = i / blocks * s.scanned * s.inner + lane;
      ScanColumns<From, To, Fold>(static_cast<const From*>(args[0]) + at,
                                  static_cast<To*>(args[1]) + at,
                                  std::min(kMostLanes, s.inner - lane),
                                  s.scanned, s.inner);
    }
  });
  return true;
}

template <typename From, typename To, template <typename> typename Fold>
bool LaunchRows(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ScanState*>(state);
  Parallel(s.num_threads, s.outer, [&](int64_t begin, int64_t end) {
    const From* x = static_cast<const From*>(args[0]) + begin * s.scanned;
    To* out = static_cast<To*>(args[1]) + begin * s.scanned;
    int64_t row = begin;
    for (; row + kMostRows <= end; row += kMostRows) {
      ScanRows<From, To, Fold, kMostRows>(x, out, s.scanned);
      x += kMostRows * s.scanned;
      out += kMostRows * s.scanned;
    }
    for (; row < end; ++row, x += s.scanned, out += s.scanned) {
      ScanRows<From, To, Fold, 1>(x, out, s.scanned);
    }
  });
  return true;
}

template <typename From, typename To, template <typename> typename Fold>
LaunchFn Choose(const ScanState& state) {
  return state.inner == 1 ? LaunchRows<From, To, Fold>
                          : LaunchColumns<From, To, Fold>;
}

template <template <typename> typename Fold>
LaunchFn ChooseTypes(DType from, DType to, const ScanState& state) {
  if (from == DType::kF32 && to == DType::kF32) {
    return Choose<float, float, Fold>(state);
  }
  if (from == DType::kF64 && to == DType::kF64) {
    return Choose<double, double, Fold>(state);
  }
  if (to != DType::kI64) return nullptr;
  switch (from) {
    case DType::kI64:
      return Choose<int64_t, int64_t, Fold>(state);
    case DType::kI32:
      return Choose<int32_t, int64_t, Fold>(state);
    case DType::kBool:
      return Choose<bool, int64_t, Fold>(state);
    default:
      return nullptr;
  }
}

template <template <typename> typename Fold>
Verdict PrepareScan(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  if (!x.is_row_major() || !out.is_row_major()) {
    return No{"operands aren't row-major"};
  }
  ScanState state;
  const int64_t given = request.Int(1);
  const int64_t axis = given < 0 ? given + x.rank() : given;
  for (int i = 0; i < x.rank(); ++i) {
    (i < axis    ? state.outer
     : i == axis ? state.scanned
                 : state.inner) *= x.dims[i];
  }
  state.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.launch = ChooseTypes<Fold>(x.dtype, out.dtype, state);
  if (prepared.launch == nullptr) return No{"converts"};
  prepared.state = std::make_shared<const ScanState>(state);
  return prepared;
}

}  // namespace

void RegisterScan(KernelRegistry& registry) {
  constexpr DType kScanned[] = {DType::kF32, DType::kF64, DType::kI64,
                                DType::kI32, DType::kBool};
  registry.Add("aten.cumsum", kScanned, KernelRank::kFast,
               {"cpu.cumsum", PrepareScan<PlusOf>});
  registry.Add("aten.cumprod", kScanned, KernelRank::kFast,
               {"cpu.cumprod", PrepareScan<TimesOf>});
}

}  // namespace mica::cpu
