#include "kernels/cpu/short_rows.h"

#include <algorithm>
#include <cstring>

namespace mica::cpu {
namespace {

template <typename T>
T Read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Each row is one element again and again. The compiler knows kRow, if it isn't
// 0.
template <typename T, int64_t kRow>
void SpreadRows(const ShortRows& from, T* to) {
  const int64_t n = kRow > 0 ? kRow : from.n;
  for (int64_t row = 0; row < from.rows; ++row, to += n) {
    const T value = Read<T>(from.at + row * from.row_step);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  }
}

template <typename T, int64_t kRow>
void CopyRows(const ShortRows& from, T* to) {
  const int64_t n = kRow > 0 ? kRow : from.n;
  for (int64_t row = 0; row < from.rows; ++row, to += n) {
    const char* at = from.at + row * from.row_step;
    for (int64_t i = 0; i < n; ++i) to[i] = Read<T>(at + i * from.step);
  }
}

// The first row again and again.
template <typename T>
void RepeatRow(const ShortRows& from, T* to) {
  ShortRows first = from;
  first.rows = 1;
  CopyRows<T, 0>(first, to);
  const int64_t all = from.rows * from.n;
  for (int64_t done = from.n; done < all;) {
    const int64_t more = std::min(done, all - done);
    std::memcpy(to + done, to, static_cast<size_t>(more) * sizeof(T));
    done += more;
  }
}

template <typename T, int64_t kRow>
void WriteRows(const ShortRows& from, T* to) {
  if (from.step == 0) return SpreadRows<T, kRow>(from, to);
  CopyRows<T, kRow>(from, to);
}

template <typename T>
void WriteOutAs(const ShortRows& from, T* to) {
  if (from.step == 0 && (from.row_step == 0 || from.rows == 1)) {
    std::fill_n(to, from.rows * from.n, Read<T>(from.at));
    return;
  }
  if (from.row_step == 0) return RepeatRow(from, to);
  switch (from.n) {
    case 1:
      return WriteRows<T, 1>(from, to);
    case 2:
      return WriteRows<T, 2>(from, to);
    case 3:
      return WriteRows<T, 3>(from, to);
    case 4:
      return WriteRows<T, 4>(from, to);
    case 8:
      return WriteRows<T, 8>(from, to);
    default:
      return WriteRows<T, 0>(from, to);
  }
}

}  // namespace

void WriteOut(const ShortRows& from, int64_t bytes, char* to) {
  switch (bytes) {
    case 1:
      return WriteOutAs(from, reinterpret_cast<uint8_t*>(to));
    case 2:
      return WriteOutAs(from, reinterpret_cast<uint16_t*>(to));
    case 4:
      return WriteOutAs(from, reinterpret_cast<uint32_t*>(to));
    default:
      return WriteOutAs(from, reinterpret_cast<uint64_t*>(to));
  }
}

}  // namespace mica::cpu
