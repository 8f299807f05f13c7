#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Some lanes of a row: all of a vector, or those of a mask.
struct AllLanes {
  MICA_INLINE Vf Get(const float* p) const { return Load(p); }
  MICA_INLINE void Put(float* p, Vf x) const { Store(p, x); }
};
struct SomeLanes {
  Vm mask;
  MICA_INLINE Vf Get(const float* p) const { return Load(p, mask); }
  MICA_INLINE void Put(float* p, Vf x) const { Store(p, x, mask); }
};

template <typename Lanes>
MICA_INLINE void LstmPart(const float* gates, float* c, float* h, int64_t n,
                          Lanes lanes) {
  const Vf in = Sigmoid(lanes.Get(gates));
  const Vf forget = Sigmoid(lanes.Get(gates + n));
  const Vf cell = Tanh(lanes.Get(gates + 2 * n));
  const Vf out = Sigmoid(lanes.Get(gates + 3 * n));
  const Vf next = Fma(forget, lanes.Get(c), in * cell);
  lanes.Put(c, next);
  lanes.Put(h, out * Tanh(next));
}

void LstmCell(const float* gates, float* c, float* h, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    LstmPart(gates + i, c + i, h + i, n, AllLanes());
  }
  if (i < n) {
    LstmPart(gates + i, c + i, h + i, n, SomeLanes{FirstLanes(n - i)});
  }
}

template <typename Lanes>
MICA_INLINE void KeepingLstmPart(float* kept, const float* c, float* h,
                                 int64_t n, Lanes lanes) {
  const Vf in = Sigmoid(lanes.Get(kept));
  const Vf forget = Sigmoid(lanes.Get(kept + n));
  const Vf cell = Tanh(lanes.Get(kept + 2 * n));
  const Vf out = Sigmoid(lanes.Get(kept + 3 * n));
  const Vf next = Fma(forget, lanes.Get(c), in * cell);
  lanes.Put(kept, in);
  lanes.Put(kept + n, forget);
  lanes.Put(kept + 2 * n, cell);
  lanes.Put(kept + 3 * n, out);
  lanes.Put(kept + 4 * n, next);
  lanes.Put(h, out * Tanh(next));
}

void KeepingLstmCell(float* kept, const float* c, float* h, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    KeepingLstmPart(kept + i, c + i, h + i, n, AllLanes());
  }
  if (i < n) {
    KeepingLstmPart(kept + i, c + i, h + i, n, SomeLanes{FirstLanes(n - i)});
  }
}

template <typename Lanes>
MICA_INLINE void LstmBackwardPart(const LstmBackwardArgs& s, int64_t i,
                                  Lanes lanes) {
  const int64_t n = s.n;
  const Vf one = Set(1.0f);
  const float* kept = s.kept + i;
  const Vf in = lanes.Get(kept), forget = lanes.Get(kept + n);
  const Vf cell = lanes.Get(kept + 2 * n), out = lanes.Get(kept + 3 * n);
  const Vf shown = Tanh(lanes.Get(kept + 4 * n));
  Vf dh = lanes.Get(s.dh + i);
  if (s.dy != nullptr) dh = dh + lanes.Get(s.dy + i);
  const Vf dc = Fma(dh * out, one - shown * shown, lanes.Get(s.dc + i));
  const auto put = [&](int gate, Vf slope) {
    float* sum = s.dbias + gate * n + i;
    lanes.Put(s.dgates + gate * n + i, slope);
    lanes.Put(sum, lanes.Get(sum) + slope);
  };
  put(0, dc * cell * in * (one - in));
  put(1, dc * lanes.Get(s.c + i) * forget * (one - forget));
  put(2, dc * in * (one - cell * cell));
  put(3, dh * shown * out * (one - out));
  lanes.Put(s.dc + i, dc * forget);
}

void LstmCellBackward(const LstmBackwardArgs& args) {
  int64_t i = 0;
  for (; i + kLanes <= args.n; i += kLanes) {
    LstmBackwardPart(args, i, AllLanes());
  }
  if (i < args.n) {
    LstmBackwardPart(args, i, SomeLanes{FirstLanes(args.n - i)});
  }
}

template <typename Lanes>
MICA_INLINE void GruPart(const float* input, const float* hidden,
                         const float* h, float* out, int64_t n, Lanes lanes) {
  const Vf r = Sigmoid(lanes.Get(input) + lanes.Get(hidden));
  const Vf z = Sigmoid(lanes.Get(input + n) + lanes.Get(hidden + n));
  const Vf next =
      Tanh(Fma(r, lanes.Get(hidden + 2 * n), lanes.Get(input + 2 * n)));
  lanes.Put(out, Fma(lanes.Get(h) - next, z, next));
}

void GruCell(const float* input, const float* hidden, const float* h,
             float* out, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    GruPart(input + i, hidden + i, h + i, out + i, n, AllLanes());
  }
  if (i < n) {
    GruPart(input + i, hidden + i, h + i, out + i, n,
            SomeLanes{FirstLanes(n - i)});
  }
}

}  // namespace

void FillRecurrent(SimdTable& table) {
  table.lstm_cell = LstmCell;
  table.gru_cell = GruCell;
  table.training.lstm_cell = KeepingLstmCell;
  table.training.lstm_cell_backward = LstmCellBackward;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
