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
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
