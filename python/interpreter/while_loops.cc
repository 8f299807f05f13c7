#include "python/interpreter/while_loops.h"

#include <cstdint>

#include "absl/algorithm/container.h"

namespace mica {

WhileLoops::WhileLoops(PyCodeObject* code, const Instructions& instructions) {
  const std::vector<uint8_t> bytes = BytesOf(code);
  std::vector<Loop> found;
  int before = -1;
  ForEachInstruction(bytes, [&](int start, int opcode, int arg, int behind) {
    const Flow flow = FlowOf(opcode, arg, behind);
    if (flow.target >= 0 && flow.target <= start &&
        instructions.at(flow.target).act != Act::kAdvance) {
      found.push_back(
          {.head = flow.target, .last = start, .before_last = before});
    }
    before = start;
  });
  for (const Loop& loop : found) {
    const bool overlaps = absl::c_any_of(found, [&](const Loop& other) {
      if (&other == &loop) return false;
      const bool is_inside = other.head > loop.head && other.last < loop.last;
      const bool is_around = other.head < loop.head && other.last > loop.last;
      const bool is_apart = other.head > loop.last || other.last < loop.head;
      return !is_inside && !is_around && !is_apart;
    });
    if (!overlaps) loops_.push_back(loop);
  }
}

const WhileLoops::Loop* WhileLoops::FindAt(int head) const {
  const auto it = absl::c_find_if(
      loops_, [head](const Loop& loop) { return loop.head == head; });
  return it == loops_.end() ? nullptr : &*it;
}

}  // namespace mica
