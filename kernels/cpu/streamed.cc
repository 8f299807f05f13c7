#include "kernels/cpu/streamed.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mica::cpu {
namespace {

constexpr int kMostStreamArrays = 64;
constexpr int64_t kLineBytes = 64;

// Of all that a launch reads and writes. What processors tell of their caches
// says nothing of what others leave of them to one core, and virtual machines
// make it up.
constexpr int64_t kLeastStreamed = int64_t{16} << 20;

}  // namespace

bool IsWorthStreaming([[maybe_unused]] int64_t bytes) {
#if defined(__SSE2__)
  return bytes >= kLeastStreamed;
#else
  return false;
#endif
}

void StreamOut(const void* buffer, void* to, int64_t bytes) {
  const char* from = static_cast<const char*>(buffer);
  char* out = static_cast<char*>(to);
  const auto past = reinterpret_cast<uintptr_t>(out) % kLineBytes;
  const int64_t head =
      past == 0 ? 0 : std::min<int64_t>(kLineBytes - past, bytes);
  std::memcpy(out, from, static_cast<size_t>(head));
  int64_t i = head;
#if defined(__SSE2__)
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
    for (int64_t j = 0; j < kLineBytes; j += 16) {
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(out + i + j),
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + j)));
    }
  }
#endif
  std::memcpy(out + i, from + i, static_cast<size_t>(bytes - i));
}

void EndStream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void RunStreamed(const ReadyRegion& region, const region::RegionRows& rows,
                 int num_arrays, absl::Span<const StreamedResult> results) {
  alignas(64) char buffers[kMostStreamed][kStreamBytes];
  char* at[kMostStreamArrays];
  int64_t most = kStreamBytes;
  for (const StreamedResult& result : results) {
    most = std::min(most, kStreamBytes / result.bytes);
  }
  // Short rows that follow each other go together.
  bool are_joined = rows.n <= most;
  for (const StreamedResult& result : results) {
    are_joined =
        are_joined && rows.row_steps[result.array] == rows.n * result.bytes;
  }
  const int64_t together = are_joined ? most / rows.n : 1;
  for (int64_t row = 0; row < rows.rows; row += together) {
    const int64_t count = std::min(together, rows.rows - row);
    for (int64_t column = 0, n = 0; column < rows.n; column += n) {
      n = std::min(most, rows.n - column);
      for (int i = 0; i < num_arrays; ++i) {
        at[i] = rows.at[i];
        if (at[i] == nullptr) continue;
        at[i] += row * rows.row_steps[i] + column * rows.steps[i];
      }
      char* to[kMostStreamed] = {};
      for (size_t r = 0; r < results.size(); ++r) {
        to[r] = at[results[r].array];
        if (to[r] != nullptr) at[results[r].array] = buffers[r];
      }
      region.Run({.at = at,
                  .row_steps = rows.row_steps,
                  .steps = rows.steps,
                  .rows = count,
                  .n = n});
      for (size_t r = 0; r < results.size(); ++r) {
        if (to[r] == nullptr) continue;
        StreamOut(buffers[r], to[r], count * n * results[r].bytes);
      }
    }
  }
}

}  // namespace mica::cpu
