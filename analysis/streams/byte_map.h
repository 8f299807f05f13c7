// What is known of each byte of several address spaces.

#ifndef MICA_ANALYSIS_STREAMS_BYTE_MAP_H_
#define MICA_ANALYSIS_STREAMS_BYTE_MAP_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace mica {

// Pieces of bytes with one T each; bytes that nobody spoke of have T().
template <typename T>
class ByteMap {
 public:
  // Calls `visit(T&)` for the pieces that make up begin..end of `space`, made
  // or split where they must be.
  template <typename F>
  void Visit(int32_t space, int64_t begin, int64_t end, F&& visit) {
    if (begin >= end) return;
    Pieces& pieces = spaces_[space];
    Split(pieces, begin);
    Split(pieces, end);
    int64_t at = begin;
    auto it = pieces.lower_bound(begin);
    while (at < end) {
      if (it == pieces.end() || it->first > at) {
        const int64_t gap_end =
            it == pieces.end() || it->first > end ? end : it->first;
        it = pieces.emplace_hint(it, at, Piece{gap_end, T()});
      }
      visit(it->second.value);
      at = it->second.end;
      ++it;
    }
  }

  // Makes begin..end of `space` one piece.
  void Set(int32_t space, int64_t begin, int64_t end, T value) {
    if (begin >= end) return;
    Pieces& pieces = spaces_[space];
    Split(pieces, begin);
    Split(pieces, end);
    auto it = pieces.lower_bound(begin);
    while (it != pieces.end() && it->first < end) it = pieces.erase(it);
    pieces.emplace_hint(it, begin, Piece{end, std::move(value)});
  }

 private:
  struct Piece {
    int64_t end;
    T value;
  };
  using Pieces = std::map<int64_t, Piece>;  // By their begin.

  // No piece goes on over `at`.
  static void Split(Pieces& pieces, int64_t at) {
    auto it = pieces.lower_bound(at);
    if (it == pieces.begin()) return;
    --it;
    if (it->second.end <= at) return;
    Piece rest = it->second;
    it->second.end = at;
    pieces.emplace(at, std::move(rest));
  }

  absl::flat_hash_map<int32_t, Pieces> spaces_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_STREAMS_BYTE_MAP_H_
