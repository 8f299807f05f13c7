#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// 16 bytes, for complex double.
struct Wide {
  uint64_t low, high;
};

template <typename T>
inline T Load(const char* from) {
  T element;
  std::memcpy(&element, from, sizeof(T));
  return element;
}

template <typename T>
inline void Store(T element, char* to) {
  std::memcpy(to, &element, sizeof(T));
}

}  // namespace

TransposeFn TransposeOf(int64_t bytes) {
  const SimdTable& table = Simd();
  switch (bytes) {
    case 1:
      return table.transpose8;
    case 2:
      return table.transpose16;
    case 4:
      return table.transpose32;
    case 8:
      return table.transpose64;
    default:
      return table.transpose128;
  }
}

// Dims of more than one element in the order of the result's memory,
// neighbours joined where they are one in both memories.
StridedCopy::Dims StridedCopy::JoinedDims(const TensorType& from,
                                          const TensorType& to, int64_t bytes) {
  const mica::Dims from_strides = from.EffectiveStrides();
  const mica::Dims to_strides = to.EffectiveStrides();
  const int first = to.rank() - from.rank();
  Dims dims;
  for (int i = 0; i < to.rank(); ++i) {
    if (to.dims[i] == 1) continue;
    const bool is_single = i < first || from.dims[i - first] == 1;
    dims.push_back({.size = to.dims[i],
                    .from = is_single ? 0 : from_strides[i - first] * bytes,
                    .to = to_strides[i] * bytes});
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& a, const Dim& b) { return a.to > b.to; });
  Dims joined;
  for (const Dim& dim : dims) {
    if (!joined.empty() && joined.back().from == dim.from * dim.size &&
        joined.back().to == dim.to * dim.size) {
      joined.back() = {.size = joined.back().size * dim.size,
                       .from = dim.from,
                       .to = dim.to};
    } else {
      joined.push_back(dim);
    }
  }
  return joined;
}

std::optional<StridedCopy> StridedCopy::Of(const TensorType& from,
                                           const TensorType& to) {
  StridedCopy copy;
  copy.bytes_ = ElementBytes(to.dtype);
  if (from.dtype != to.dtype || from.rank() > to.rank()) return std::nullopt;
  copy.num_elements_ = to.num_elements();
  copy.is_same_layout_ =
      from.dims == to.dims && from.EffectiveStrides() == to.EffectiveStrides();
  copy.outer_ = JoinedDims(from, to, copy.bytes_);
  switch (copy.bytes_) {
    case 1:
      copy.ChooseElements<uint8_t>();
      break;
    case 2:
      copy.ChooseElements<uint16_t>();
      break;
    case 4:
      copy.ChooseElements<uint32_t>();
      break;
    case 8:
      copy.ChooseElements<uint64_t>();
      break;
    case 16:
      copy.ChooseElements<Wide>();
      break;
    default:
      return std::nullopt;
  }
  return copy;
}

template <typename T>
void StridedCopy::ChooseElements() {
  if (TakeSquares() && ChooseSquares<T>()) return;
  if (!outer_.empty()) {
    columns_ = outer_.back();
    outer_.pop_back();
  } else {
    columns_ = {.size = 1, .from = bytes_, .to = bytes_};
  }
  if (!outer_.empty()) {
    rows_ = outer_.back();
    outer_.pop_back();
  }
  constexpr int64_t kShort = 8;
  if (columns_.from == bytes_ && columns_.to == bytes_) {
    inner_ = CopyRows;
  } else if (columns_.from == 0 && columns_.to == bytes_) {
    inner_ = FillRows<T>;
  } else if (columns_.to == bytes_ && columns_.size >= kShort &&
             GatherOf(bytes_) != nullptr) {
    inner_ = GatherRows<T>;
  } else {
    inner_ = CopyElements<T>;
  }
}

// Takes as columns the dim along which the result has its runs, as rows that
// along which the operand has them, if these are two.
bool StridedCopy::TakeSquares() {
  if (outer_.size() < 2 || outer_.back().to != bytes_) return false;
  const auto rows =
      std::find_if(outer_.begin(), outer_.end() - 1,
                   [this](const Dim& dim) { return dim.from == bytes_; });
  if (rows == outer_.end() - 1 || outer_.back().from == 0) return false;
  constexpr int64_t kFewest = 4;
  if (rows->size < kFewest) return false;
  rows_ = *rows;
  columns_ = outer_.back();
  outer_.pop_back();
  outer_.erase(rows);
  return true;
}

template <typename T>
bool StridedCopy::ChooseSquares() {
  constexpr int64_t kFewest = 8;
  if (columns_.size >= kFewest && rows_.size >= kFewest) {
    inner_ = Transpose<T>;
  } else if (columns_.size == 2) {
    inner_ = Interleave<T, 2>;
  } else if (columns_.size == 3) {
    inner_ = Interleave<T, 3>;
  } else if (columns_.size == 4) {
    inner_ = Interleave<T, 4>;
  } else {
    inner_ = Transpose<T>;
  }
  return true;
}

void StridedCopy::CopyRows(const StridedCopy& copy, const char* from,
                           char* to) {
  const int64_t bytes = copy.columns_.size * copy.bytes_;
  for (int64_t i = 0; i < copy.rows_.size; ++i) {
    CopyRun(from + i * copy.rows_.from, to + i * copy.rows_.to, bytes);
  }
}

template <typename T>
void StridedCopy::FillRows(const StridedCopy& copy, const char* from,
                           char* to) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  const Dim& rows = copy.rows_;
  const int64_t n = copy.columns_.size;
  for (int64_t r = 0; r < rows.size; ++r) {
    const T element = Load<T>(from + r * rows.from);
    char* row = to + r * rows.to;
    for (int64_t i = 0; i < n; ++i) Store(element, row + i * kBytes);
  }
}

template <typename T>
void StridedCopy::GatherRows(const StridedCopy& copy, const char* from,
                             char* to) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  const GatherFn gather = GatherOf(kBytes);
  const Dim &rows = copy.rows_, &columns = copy.columns_;
  for (int64_t r = 0; r < rows.size; ++r) {
    gather(from + r * rows.from, columns.from / kBytes, columns.size,
           to + r * rows.to);
  }
}

template <typename T>
void StridedCopy::CopyElements(const StridedCopy& copy, const char* from,
                               char* to) {
  const Dim &rows = copy.rows_, &columns = copy.columns_;
  for (int64_t r = 0; r < rows.size; ++r) {
    const char* in = from + r * rows.from;
    char* out = to + r * rows.to;
    int64_t i = 0;
    // Read before any of them is written, which the compiler can't do.
    for (; i + 4 <= columns.size; i += 4) {
      const T a = Load<T>(in), b = Load<T>(in + columns.from),
              c = Load<T>(in + 2 * columns.from),
              d = Load<T>(in + 3 * columns.from);
      in += 4 * columns.from;
      Store(a, out);
      Store(b, out + columns.to);
      Store(c, out + 2 * columns.to);
      Store(d, out + 3 * columns.to);
      out += 4 * columns.to;
    }
    for (; i < columns.size; ++i, in += columns.from, out += columns.to) {
      Store(Load<T>(in), out);
    }
  }
}

// Few columns: each row of the result is made of one element of each.
template <typename T, int kColumns>
void StridedCopy::Interleave(const StridedCopy& copy, const char* from,
                             char* to) {
  const Dim& rows = copy.rows_;
  const int64_t step = copy.columns_.from;
  constexpr int64_t kBytes = sizeof(T);
  if (rows.to == kColumns * kBytes) {
    // Known distances, so that the compiler may use vectors.
    for (int64_t r = 0; r < rows.size; ++r) {
      for (int c = 0; c < kColumns; ++c) {
        Store(Load<T>(from + c * step + r * kBytes),
              to + (r * kColumns + c) * kBytes);
      }
    }
    return;
  }
  for (int64_t r = 0; r < rows.size; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      Store(Load<T>(from + c * step + r * kBytes),
            to + r * rows.to + c * kBytes);
    }
  }
}

template <typename T>
void StridedCopy::Transpose(const StridedCopy& copy, const char* from,
                            char* to) {
  constexpr int64_t kBytes = sizeof(T);
  const Dim &rows = copy.rows_, &columns = copy.columns_;
  TransposeOf(kBytes)(from, columns.from / kBytes, to, rows.to / kBytes,
                      columns.size, rows.size);
}

void StridedCopy::RunOuter(const char* from, char* to, int64_t begin,
                           int64_t end) const {
  const int rank = static_cast<int>(outer_.size());
  absl::InlinedVector<int64_t, 6> index(rank, 0);
  int64_t rest = begin;
  for (int d = rank - 1; d >= 0; --d) {
    index[d] = rest % outer_[d].size;
    rest /= outer_[d].size;
    from += index[d] * outer_[d].from;
    to += index[d] * outer_[d].to;
  }
  for (int64_t i = begin; i < end; ++i) {
    inner_(*this, from, to);
    for (int d = rank - 1; d >= 0; --d) {
      const bool wraps = ++index[d] == outer_[d].size;
      const int64_t steps = wraps ? 1 - outer_[d].size : 1;
      from += steps * outer_[d].from;
      to += steps * outer_[d].to;
      if (!wraps) break;
      index[d] = 0;
    }
  }
}

void StridedCopy::Run(const void* from, void* to, int num_threads) const {
  if (num_elements_ == 0 || (from == to && is_same_layout_)) return;
  const char* const in = static_cast<const char*>(from);
  char* const out = static_cast<char*>(to);
  if (outer_.empty()) {
    Parallel(num_threads, rows_.size, [&](int64_t begin, int64_t end) {
      StridedCopy piece = *this;
      piece.rows_.size = end - begin;
      piece.inner_(piece, in + begin * rows_.from, out + begin * rows_.to);
    });
    return;
  }
  int64_t count = 1;
  for (const Dim& dim : outer_) count *= dim.size;
  Parallel(num_threads, count,
           [&](int64_t begin, int64_t end) { RunOuter(in, out, begin, end); });
}

}  // namespace mica::cpu
