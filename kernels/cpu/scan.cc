// Running sums and products along one axis of row-major operands.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

// Lanes that run beside each other: neighbours in memory, or rows, whose sums
// then don't wait for each other. Rows of a page's length lie in one set of the
// first-level cache, which has room for eight lines, those of the result too.
constexpr int64_t kMostLanes = 256;
constexpr int64_t kMostRows = 4;

struct ScanState {
  int64_t outer = 1, scanned = 1, inner = 1;
  ConvertFn widen = nullptr, narrow = nullptr;  // Of 16 bits.
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

// Numbers of 32 bits and more are summed in double, as in PyTorch; integers
// wrap.
template <typename To>
using RunningOf =
    std::conditional_t<std::is_floating_point_v<To>, double, uint64_t>;

// Lanes that are neighbours: element i of all of them lies at i * step. Goes on
// from `running`.
template <typename From, typename To, template <typename> typename Fold,
          typename Running>
void ScanColumns(const From* x, To* out, int64_t lanes, int64_t count,
                 int64_t step, Running* running) {
  for (int64_t i = 0; i < count; ++i, x += step, out += step) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<Running>(x[lane]);
      running[lane] = Fold<Running>::Of(running[lane], value);
      out[lane] = static_cast<To>(running[lane]);
    }
  }
}

// Rows of `count` elements that begin `step` apart.
template <typename From, typename To, template <typename> typename Fold,
          int64_t kRows, typename Running>
void ScanRows(const From* x, To* out, int64_t count, int64_t step,
              Running* all_running) {
  // Not by functions that take addresses: these are to stay in registers.
  Running running[kRows];
  for (int64_t row = 0; row < kRows; ++row) running[row] = all_running[row];
  for (int64_t i = 0; i < count; ++i) {
    // All are read before any is written: elements of several rows may lie at
    // the same place of their pages, and a read there waits for a write.
    for (int64_t row = 0; row < kRows; ++row) {
      const auto value = static_cast<Running>(x[row * step + i]);
      running[row] = Fold<Running>::Of(running[row], value);
    }
    for (int64_t row = 0; row < kRows; ++row) {
      out[row * step + i] = static_cast<To>(running[row]);
    }
  }
  for (int64_t row = 0; row < kRows; ++row) all_running[row] = running[row];
}

// A type whose elements are computed with as they are.
template <typename From, typename To, template <typename> typename Fold>
struct Plain {
  using Running = RunningOf<To>;
  static constexpr int64_t kFromBytes = sizeof(From), kToBytes = sizeof(To);

  static void Columns(const ScanState& s, const void* x, void* out,
                      int64_t lanes) {
    Running running[kMostLanes];
    std::fill_n(running, lanes, Fold<Running>::kStart);
    ScanColumns<From, To, Fold>(static_cast<const From*>(x),
                                static_cast<To*>(out), lanes, s.scanned,
                                s.inner, running);
  }

  template <int64_t kRows>
  static void Rows(const ScanState& s, const void* x, void* out) {
    Running running[kRows];
    std::fill_n(running, kRows, Fold<Running>::kStart);
    ScanRows<From, To, Fold, kRows>(static_cast<const From*>(x),
                                    static_cast<To*>(out), s.scanned, s.scanned,
                                    running);
  }
};

// Numbers of 16 bits, which go through float32, and are summed in it, as in
// PyTorch.
template <template <typename> typename Fold>
struct Widened {
  static constexpr int64_t kFromBytes = sizeof(uint16_t);
  static constexpr int64_t kToBytes = sizeof(uint16_t);

  static void Columns(const ScanState& s, const void* x, void* out,
                      int64_t lanes) {
    const auto* from = static_cast<const uint16_t*>(x);
    auto* to = static_cast<uint16_t*>(out);
    float running[kMostLanes], wide[kMostLanes];
    std::fill_n(running, lanes, Fold<float>::kStart);
    // Few lanes that follow each other are widened together.
    const int64_t most = lanes == s.inner ? kMostLanes / lanes : 1;
    for (int64_t i = 0; i < s.scanned; i += most) {
      const int64_t count = std::min(most, s.scanned - i);
      s.widen(from, wide, count * lanes);
      ScanColumns<float, float, Fold>(wide, wide, lanes, count, lanes, running);
      s.narrow(wide, to, count * lanes);
      from += count * s.inner;
      to += count * s.inner;
    }
  }

  template <int64_t kRows>
  static void Rows(const ScanState& s, const void* x, void* out) {
    constexpr int64_t kPiece = 512;
    const auto* from = static_cast<const uint16_t*>(x);
    auto* to = static_cast<uint16_t*>(out);
    float running[kRows], wide[kRows * kPiece];
    std::fill_n(running, kRows, Fold<float>::kStart);
    for (int64_t i = 0; i < s.scanned; i += kPiece) {
      const int64_t n = std::min(kPiece, s.scanned - i);
      for (int64_t row = 0; row < kRows; ++row) {
        s.widen(from + row * s.scanned + i, wide + row * n, n);
      }
      ScanRows<float, float, Fold, kRows>(wide, wide, n, n, running);
      for (int64_t row = 0; row < kRows; ++row) {
        s.narrow(wide + row * n, to + row * s.scanned + i, n);
      }
    }
  }
};

char* At(void* x, int64_t bytes) { return static_cast<char*>(x) + bytes; }

template <typename Scan>
bool LaunchColumns(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ScanState*>(state);
  const int64_t blocks = (s.inner + kMostLanes - 1) / kMostLanes;
  Parallel(s.num_threads, s.outer * blocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t lane = i % blocks * kMostLanes;
      const int64_t at = i / blocks * s.scanned * s.inner + lane;
      Scan::Columns(s, At(args[0], at * Scan::kFromBytes),
                    At(args[1], at * Scan::kToBytes),
                    std::min(kMostLanes, s.inner - lane));
    }
  });
  return true;
}

template <typename Scan>
bool LaunchRows(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ScanState*>(state);
  Parallel(s.num_threads, s.outer, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const char* x = At(args[0], row * s.scanned * Scan::kFromBytes);
      char* out = At(args[1], row * s.scanned * Scan::kToBytes);
      if (row + kMostRows <= end) {
        Scan::template Rows<kMostRows>(s, x, out);
        row += kMostRows;
      } else {
        Scan::template Rows<1>(s, x, out);
        row += 1;
      }
    }
  });
  return true;
}

template <typename Scan>
LaunchFn ChooseAxis(const ScanState& state) {
  return state.inner == 1 ? LaunchRows<Scan> : LaunchColumns<Scan>;
}

template <typename From, typename To, template <typename> typename Fold>
LaunchFn Choose(const ScanState& state) {
  return ChooseAxis<Plain<From, To, Fold>>(state);
}

template <template <typename> typename Fold>
LaunchFn ChooseTypes(DType from, DType to, const ScanState& state) {
  if (from == DType::kF32 && to == DType::kF32) {
    return Choose<float, float, Fold>(state);
  }
  if (from == DType::kF64 && to == DType::kF64) {
    return Choose<double, double, Fold>(state);
  }
  if (from == to && state.widen != nullptr) {
    return ChooseAxis<Widened<Fold>>(state);
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
  if (const auto half = HalfOf(x.dtype)) {
    constexpr int64_t kShortest = 64;
    if (state.inner == 1 && state.scanned < kShortest) return No{"short rows"};
    state.widen = Simd().widen[static_cast<int>(*half)];
    state.narrow = Simd().narrow[static_cast<int>(*half)];
  }
  Prepared prepared;
  prepared.launch = ChooseTypes<Fold>(x.dtype, out.dtype, state);
  if (prepared.launch == nullptr) return No{"converts"};
  prepared.state = std::make_shared<const ScanState>(state);
  return prepared;
}

}  // namespace

void RegisterScan(KernelRegistry& registry) {
  constexpr DType kScanned[] = {DType::kF32, DType::kF64,  DType::kI64,
                                DType::kI32, DType::kBool, DType::kBF16,
                                DType::kF16};
  registry.Add("aten.cumsum", kScanned, KernelRank::kFast,
               {"cpu.cumsum", PrepareScan<PlusOf>});
  registry.Add("aten.cumprod", kScanned, KernelRank::kFast,
               {"cpu.cumprod", PrepareScan<TimesOf>});
}

}  // namespace mica::cpu
