#include "tools/fill.h"

#include <cstring>

#include "absl/base/casts.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Source: Vigna, splitmix64.
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

template <typename T, typename Make>
void FillWith(const Tensor& tensor, uint64_t seed, Make make) {
  const int64_t count = tensor.type().extent_bytes() / sizeof(T);
  T* data = static_cast<T*>(tensor.data());
  for (int64_t i = 0; i < count; ++i) data[i] = make(NextRandom(&seed));
}

float Uniform(uint64_t random) {
  return static_cast<float>(random >> 40) / (1 << 24) - 0.5f;
}

// Halves are made by their bits: a sign, an exponent of 2^-2 and a mantissa.
void FillFloats(const Tensor& tensor, uint64_t seed) {
  // Both parts of a complex number.
  switch (RealDType(tensor.type().dtype)) {
    case DType::kF32:
      return FillWith<float>(tensor, seed, Uniform);
    case DType::kF64:
      return FillWith<double>(tensor, seed, Uniform);
    case DType::kBF16:
      return FillWith<uint16_t>(tensor, seed, [](uint64_t random) {
        return absl::bit_cast<uint32_t>(Uniform(random)) >> 16;
      });
    default:
      return FillWith<uint16_t>(tensor, seed, [](uint64_t random) {
        return (random & 0x8000) | 0x3400 | (random >> 32 & 0x3ff);
      });
  }
}

}  // namespace

absl::StatusOr<Tensor> RandomTensor(const TensorType& type, uint64_t seed) {
  MICA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  auto bit = [](uint64_t random) { return random >> 63; };
  if (IsFloating(RealDType(type.dtype))) {
    FillFloats(tensor, seed);
    return tensor;
  }
  switch (ElementBytes(type.dtype)) {
    case 1:
      FillWith<uint8_t>(tensor, seed, bit);
      break;
    case 2:
      FillWith<int16_t>(tensor, seed, bit);
      break;
    case 4:
      FillWith<int32_t>(tensor, seed, bit);
      break;
    default:
      FillWith<int64_t>(tensor, seed, bit);
      break;
  }
  return tensor;
}

}  // namespace mica
