// Results whose size depends on data, of operands in row-major order.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/cpu/families.h"

namespace mica::cpu {
namespace {

struct NonzeroState {
  Dims dims;
  int64_t num_elements = 0;
};

// Writes the index of each element in turn that isn't 0.
template <typename T>
bool LaunchNonzero(const void* opaque, void* const* args, LaunchContext&) {
  const auto& state = *static_cast<const NonzeroState*>(opaque);
  const T* self = static_cast<const T*>(args[0]);
  int64_t* places = static_cast<int64_t*>(args[1]);
  const size_t rank = state.dims.size();
  const int64_t columns = rank == 0 ? 1 : state.dims[rank - 1];
  Dims index(rank, 0);
  int64_t count = 0;
  for (int64_t row = 0; row < state.num_elements; row += columns) {
    for (int64_t column = 0; column < columns; ++column) {
      if (self[row + column] == T{0}) continue;
      ++count;
      if (places == nullptr || rank == 0) continue;
      places = std::copy(index.begin(), index.end() - 1, places);
      *places++ = column;
    }
    // The next row's index.
    for (size_t axis = rank < 2 ? 0 : rank - 1; axis > 0; --axis) {
      if (++index[axis - 1] < state.dims[axis - 1]) break;
      index[axis - 1] = 0;
    }
  }
  if (places != nullptr) {
    std::fill_n(places, (state.num_elements - count) * rank, int64_t{0});
  }
  if (args[2] != nullptr) *static_cast<int64_t*>(args[2]) = count;
  return true;
}

LaunchFn NonzeroOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return LaunchNonzero<float>;
    case DType::kF64:
      return LaunchNonzero<double>;
    case DType::kI64:
      return LaunchNonzero<int64_t>;
    case DType::kI32:
      return LaunchNonzero<int32_t>;
    default:
      return LaunchNonzero<uint8_t>;
  }
}

constexpr DType kNonzeroTypes[] = {DType::kF32, DType::kF64, DType::kI64,
                                   DType::kI32, DType::kBool};

Verdict PrepareNonzero(const KernelRequest& request) {
  const TensorType& self = request.operands[0].type;
  if (!self.is_row_major() || !request.results[0].type.is_row_major()) {
    return No{"wants row-major operands and results"};
  }
  return Prepared{.launch = NonzeroOf(self.dtype),
                  .state = std::make_shared<const NonzeroState>(NonzeroState{
                      .dims = self.dims, .num_elements = self.num_elements()}),
                  .never_fails = true};
}

template <typename T>
bool LaunchMaskedSelect(const void* opaque, void* const* args, LaunchContext&) {
  const int64_t num_elements = *static_cast<const int64_t*>(opaque);
  const T* self = static_cast<const T*>(args[0]);
  const uint8_t* mask = static_cast<const uint8_t*>(args[1]);
  T* chosen = static_cast<T*>(args[2]);
  int64_t count = 0;
  if (chosen == nullptr) {
    for (int64_t i = 0; i < num_elements; ++i) count += mask[i] != 0;
  } else {
    // Without a branch: what isn't chosen is overwritten by what comes next.
    for (int64_t i = 0; i < num_elements; ++i) {
      chosen[count] = self[i];
      count += mask[i] != 0;
    }
    std::fill(chosen + count, chosen + num_elements, T{0});
  }
  if (args[3] != nullptr) *static_cast<int64_t*>(args[3]) = count;
  return true;
}

constexpr DType kChosenTypes[] = {
    DType::kF32,  DType::kF64,  DType::kI64, DType::kI32, DType::kF16,
    DType::kBF16, DType::kBool, DType::kU8,  DType::kI8,  DType::kI16};

Verdict PrepareMaskedSelect(const KernelRequest& request) {
  const TensorType& self = request.operands[0].type;
  const TensorType& mask = request.operands[1].type;
  if (!self.is_row_major() || !mask.is_row_major() || self.dims != mask.dims ||
      !request.results[0].type.is_row_major()) {
    return No{"wants row-major operands of equal dims"};
  }
  const int64_t bytes = ElementBytes(self.dtype);
  return Prepared{.launch = bytes == 1   ? LaunchMaskedSelect<uint8_t>
                            : bytes == 2 ? LaunchMaskedSelect<uint16_t>
                            : bytes == 4 ? LaunchMaskedSelect<uint32_t>
                                         : LaunchMaskedSelect<uint64_t>,
                  .state = std::make_shared<const int64_t>(self.num_elements()),
                  .never_fails = true};
}

}  // namespace

void RegisterBounded(KernelRegistry& registry) {
  registry.Add("mica.nonzero", kNonzeroTypes, KernelRank::kFast,
               {"cpu.nonzero", PrepareNonzero});
  registry.Add("mica.masked_select", kChosenTypes, KernelRank::kFast,
               {"cpu.masked_select", PrepareMaskedSelect});
}

}  // namespace mica::cpu
