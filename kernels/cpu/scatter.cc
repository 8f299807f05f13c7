// Elements written, or added, where indices along one axis say, of row-major
// operands: scatter and scatter_add.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/tensor/half.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

struct ScatterState;

// Index 0..count of one group, for each of its elements.
using WriteFn = void (*)(const ScatterState& s, void* out, const int64_t* index,
                         const void* source);

struct ScatterState {
  std::string op;
  int64_t outer = 1, rows = 0, count = 0, inner = 1;
  int64_t self_bytes = 0, bytes = 0;
  // Of the arguments; no source: the number.
  int index_arg = 1, source_arg = 2, out_arg = 3;
  Constant number;
  WriteFn write = nullptr;
};

// How elements are read and written.
template <typename T>
struct Plain {
  using Memory = T;
  static T Add(T a, T b) { return static_cast<T>(a + b); }
};
struct WrappingLong {
  using Memory = uint64_t;
  static uint64_t Add(uint64_t a, uint64_t b) { return a + b; }
};
template <typename Type, bool kAdds, bool kIsNumber>
void WriteElements(const ScatterState& s, void* out, const int64_t* index,
                   const void* source) {
  using T = typename Type::Memory;
  T* const to = static_cast<T*>(out);
  const T* const from = static_cast<const T*>(source);
  T number{};
  if (kIsNumber) std::memcpy(&number, s.number.bytes, sizeof(number));
  const int64_t inner = s.inner;
  if (inner == 1) {
    for (int64_t i = 0; i < s.count; ++i) {
      const T given = kIsNumber ? number : from[i];
      to[index[i]] = kAdds ? Type::Add(to[index[i]], given) : given;
    }
    return;
  }
  for (int64_t i = 0; i < s.count; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t at = i * inner + j;
      T& element = to[index[at] * inner + j];
      const T given = kIsNumber ? number : from[at];
      element = kAdds ? Type::Add(element, given) : given;
    }
  }
}

absl::Status OutsideOf(const ScatterState& s, int64_t index) {
  return absl::InvalidArgumentError(absl::StrCat(
      s.op, ": index ", index, " is out of range for ", s.rows, " elements"));
}

// Null, or an index that names nothing: nothing is written then.
const int64_t* FirstOutside(const int64_t* index, int64_t count, int64_t rows) {
  uint64_t outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    outside |=
        static_cast<uint64_t>(index[i]) |
        (static_cast<uint64_t>(rows - 1) - static_cast<uint64_t>(index[i]));
  }
  if (outside >> 63 == 0) return nullptr;
  return std::find_if(index, index + count,
                      [rows](int64_t i) { return i < 0 || i >= rows; });
}

bool LaunchScatter(const void* state, void* const* args,
                   LaunchContext& context) {
  const auto& s = *static_cast<const ScatterState*>(state);
  const auto* index = static_cast<const int64_t*>(args[s.index_arg]);
  const int64_t group = s.count * s.inner;
  const int64_t* const outside = FirstOutside(index, s.outer * group, s.rows);
  if (outside != nullptr) return context.Fail(OutsideOf(s, *outside));
  auto* out = static_cast<char*>(args[s.out_arg]);
  const auto* source =
      static_cast<const char*>(s.source_arg < 0 ? nullptr : args[s.source_arg]);
  if (args[0] != args[s.out_arg]) {
    std::memcpy(out, args[0], static_cast<size_t>(s.self_bytes));
  }
  for (int64_t o = 0; o < s.outer; ++o) {
    s.write(s, out + o * s.rows * s.inner * s.bytes, index + o * group,
            source == nullptr ? nullptr : source + o * group * s.bytes);
  }
  return true;
}

template <typename Type>
WriteFn WriterOf(bool adds, bool is_number) {
  if (adds) return WriteElements<Type, true, false>;
  return is_number ? WriteElements<Type, false, true>
                   : WriteElements<Type, false, false>;
}

WriteFn WriterOf(DType dtype, bool adds, bool is_number) {
  if (adds && dtype == DType::kF32) return WriterOf<Plain<float>>(true, false);
  if (adds && dtype == DType::kF64) return WriterOf<Plain<double>>(true, false);
  // What 16 bits are added in is ATen's affair.
  if (adds && dtype != DType::kI64 && dtype != DType::kI32) return nullptr;
  switch (ElementBytes(dtype)) {
    case 1:
      return WriterOf<Plain<uint8_t>>(adds, is_number);
    case 2:
      return WriterOf<Plain<uint16_t>>(adds, is_number);
    case 4:
      return WriterOf<Plain<uint32_t>>(adds, is_number);
    default:
      return WriterOf<WrappingLong>(adds, is_number);
  }
}

// A number as elements of `dtype`; nothing where it would be cut.
std::optional<Constant> NumberAs(DType dtype, const Argument& argument) {
  const auto* integer = std::get_if<int64_t>(&argument);
  const auto* real = std::get_if<double>(&argument);
  if (integer == nullptr && real == nullptr) return std::nullopt;
  if (HalfOf(dtype).has_value()) {
    const auto value = static_cast<float>(
        integer != nullptr ? static_cast<double>(*integer) : *real);
    const uint16_t bits =
        dtype == DType::kBF16 ? FloatToBFloat16(value) : FloatToHalf(value);
    Constant constant;
    std::memcpy(constant.bytes, &bits, sizeof(bits));
    return constant;
  }
  const auto elem = ElemOf(dtype);
  if (!elem.has_value() || *elem == Elem::kBool) return std::nullopt;
  if (integer != nullptr) return MakeConstant(*elem, *integer);
  if (!IsFloating(dtype)) return std::nullopt;
  return MakeConstant(*elem, *real);
}

Verdict PrepareScatter(const KernelRequest& request, bool adds) {
  const TensorType& self = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  const int rank = self.rank();
  if (request.OperandIndex(2) < 0 || rank == 0) return No{"no axis"};
  const TensorType& index = request.operands[request.OperandIndex(2)].type;
  if (!self.is_row_major() || !out.is_row_major() || !index.is_row_major() ||
      index.dtype != DType::kI64 || index.rank() != rank) {
    return No{"operands aren't row-major"};
  }
  const int64_t given = request.Int(1);
  const int axis = static_cast<int>(given < 0 ? given + rank : given);
  ScatterState s{.op = request.def->name(),
                 .rows = self.dims[axis],
                 .count = index.dims[axis],
                 .self_bytes = self.num_bytes(),
                 .bytes = ElementBytes(self.dtype),
                 .index_arg = request.OperandIndex(2),
                 .source_arg = request.OperandIndex(3),
                 .out_arg = static_cast<int>(request.operands.size())};
  for (int i = 0; i < rank; ++i) {
    if (i == axis) continue;
    if (index.dims[i] != self.dims[i]) return No{"fewer rows than the operand"};
    (i < axis ? s.outer : s.inner) *= self.dims[i];
  }
  if (index.num_elements() == 0) return No{"no indices"};
  if (s.source_arg >= 0) {
    const TensorType& source = request.operands[s.source_arg].type;
    if (source.dtype != self.dtype || source.dims != index.dims ||
        !source.is_row_major()) {
      return No{"the source lies otherwise than the index"};
    }
  } else {
    const auto number = NumberAs(self.dtype, (*request.arguments)[3]);
    if (!number.has_value() || adds) return No{"another kind of number"};
    s.number = *number;
  }
  s.write = WriterOf(self.dtype, adds, s.source_arg < 0);
  if (s.write == nullptr) return No{"no loop for this dtype"};
  Prepared prepared;
  prepared.launch = LaunchScatter;
  prepared.inplace_operands = 1;
  prepared.state = std::make_shared<const ScatterState>(std::move(s));
  return prepared;
}

}  // namespace

void RegisterScatter(KernelRegistry& registry) {
  const auto add = [&registry](absl::string_view op, bool adds) {
    registry.Add(op, kMovedTypes, KernelRank::kFast,
                 {"cpu.scatter", [adds](const KernelRequest& request) {
                    return PrepareScatter(request, adds);
                  }});
  };
  add("aten.scatter.value", false);
  add("aten.scatter.src", false);
  add("aten.scatter_add", true);
}

}  // namespace mica::cpu
