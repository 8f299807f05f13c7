#include "framework/tensor/tensor_type.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/mutex.h"

namespace mica {
namespace {

// An argument may well be the least integer.
constexpr Dim kFirstSymbol = std::numeric_limits<int64_t>::min() + 1;
constexpr Dim kLastSymbol = kFirstSymbol + (int64_t{1} << 32);

// Names of all symbols of the process, by their number.
class SymbolTable {
 public:
  Dim Intern(absl::string_view name) {
    MutexLock lock(&mutex_);
    auto [it, is_new] =
        ids_.try_emplace(std::string(name), kFirstSymbol + names_.size());
    if (is_new) names_.push_back(it->first);
    return it->second;
  }
  std::string Name(Dim symbol) {
    MutexLock lock(&mutex_);
    const auto index = static_cast<size_t>(symbol - kFirstSymbol);
    return index < names_.size() ? names_[index] : absl::StrCat(symbol);
  }

 private:
  Mutex mutex_;
  absl::node_hash_map<std::string, Dim> ids_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

SymbolTable& Symbols() {
  static SymbolTable& table = *new SymbolTable;
  return table;
}

}  // namespace

Dim SymbolDim(absl::string_view name) { return Symbols().Intern(name); }

bool IsSymbol(Dim dim) { return dim >= kFirstSymbol && dim < kLastSymbol; }

std::string DimToString(Dim dim) {
  return IsSymbol(dim) ? Symbols().Name(dim) : absl::StrCat(dim);
}

int64_t TensorType::num_elements() const {
  int64_t count = 1;
  for (Dim dim : dims) count *= dim;
  return count;
}

int64_t TensorType::num_bytes() const {
  return num_elements() * ElementBytes(dtype);
}

int64_t TensorType::extent_bytes() const {
  if (strides.empty()) return num_bytes();
  int64_t last = 0;
  for (int i = 0; i < rank(); ++i) {
    if (dims[i] == 0) return 0;
    last += (dims[i] - 1) * strides[i];
  }
  return (last + 1) * ElementBytes(dtype);
}

bool TensorType::is_static() const {
  return std::none_of(dims.begin(), dims.end(), IsSymbol) &&
         std::none_of(strides.begin(), strides.end(), IsSymbol);
}

bool TensorType::is_row_major() const {
  if (strides.empty()) return true;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  int64_t expected = 1;
  bool fits = true;  // Damaged types and symbols may not.
  for (int i = rank() - 1; i >= 0; --i) {
    if (dims[i] != 1 && (!fits || strides[i] != expected)) return false;
    fits = fits && !__builtin_mul_overflow(expected, dims[i], &expected);
  }
  return true;
}

bool TensorType::is_dense() const {
  if (is_row_major()) return true;
  absl::InlinedVector<std::pair<int64_t, int64_t>, 6> order;
  for (int i = 0; i < rank(); ++i) {
    if (dims[i] != 1) order.emplace_back(strides[i], dims[i]);
  }
  std::sort(order.begin(), order.end());
  int64_t expected = 1;
  bool fits = true;
  for (const auto& [stride, dim] : order) {
    if (!fits || stride != expected) return false;
    fits = !__builtin_mul_overflow(expected, dim, &expected);
  }
  return true;
}

Dims TensorType::EffectiveStrides() const {
  return strides.empty() ? RowMajorStrides(dims) : strides;
}

std::string TensorType::ToString() const {
  if (is_scalar) return std::string(DTypeName(dtype));
  auto append_dim = [](std::string* out, Dim dim) {
    absl::StrAppend(out, DimToString(dim));
  };
  std::string text = absl::StrCat(DTypeName(dtype), "[",
                                  absl::StrJoin(dims, ",", append_dim), "]");
  if (!is_row_major()) {
    absl::StrAppend(&text, "{", absl::StrJoin(strides, ",", append_dim), "}");
  }
  return text;
}

bool operator==(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.dims != b.dims || a.is_scalar != b.is_scalar) {
    return false;
  }
  if (a.strides == b.strides) return true;
  if (!a.is_static()) return false;
  if (a.is_row_major() || b.is_row_major()) {
    return a.is_row_major() && b.is_row_major();
  }
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dims[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

Dims TensorType::MeaningfulStrides() const {
  if (is_row_major()) return {};
  Dims meaningful = strides;
  for (int i = 0; i < rank(); ++i) {
    if (dims[i] == 1) meaningful[i] = 0;
  }
  return meaningful;
}

TensorType ScalarType(DType dtype) {
  return TensorType{.dtype = dtype, .is_scalar = true};
}

Dims RowMajorStrides(absl::Span<const Dim> dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

TensorType InOneForm(TensorType type) {
  if (!type.strides.empty() && type.is_row_major()) type.strides.clear();
  return type;
}

bool SameShape(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.is_scalar == b.is_scalar;
}

bool HasLegalSize(const TensorType& type) {
  // A dim of 0 counts as 1, so that no product of some dims overflows.
  int64_t bytes = ElementBytes(type.dtype);
  for (Dim dim : type.dims) {
    if (IsSymbol(dim)) continue;
    if (dim < 0 ||
        __builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes) ||
        bytes > kMaxTensorBytes) {
      return false;
    }
  }
  int64_t extent = 0;
  for (int i = 0; i < static_cast<int>(type.strides.size()); ++i) {
    int64_t reach = 0;
    if (IsSymbol(type.dims[i]) || IsSymbol(type.strides[i])) continue;
    if (type.strides[i] < 0 || type.strides[i] > kMaxTensorBytes ||
        __builtin_mul_overflow(type.strides[i], type.dims[i], &reach) ||
        __builtin_add_overflow(extent, reach, &extent) ||
        extent > kMaxTensorBytes) {
      return false;
    }
  }
  return true;
}

}  // namespace mica
