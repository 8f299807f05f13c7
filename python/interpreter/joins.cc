#include "python/interpreter/joins.h"

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "python/interpreter/instructions.h"

namespace mica {
namespace {

// Instructions by number, in order; behind them stands the function's end.
struct Graph {
  std::vector<int> units;
  std::vector<std::vector<int>> next;
  int end() const { return static_cast<int>(units.size()); }
};

Graph MakeGraph(absl::Span<const uint8_t> bytes) {
  const int num_units = static_cast<int>(bytes.size() / 2);
  Graph graph;
  std::vector<int> number(static_cast<size_t>(num_units) + 1, -1);
  std::vector<Flow> flows;
  ForEachInstruction(bytes, [&](int start, int opcode, int arg, int behind) {
    number[start] = graph.end();
    graph.units.push_back(start);
    flows.push_back(FlowOf(opcode, arg, behind));
    flows.back().next = behind;
  });
  const int end = graph.end();
  const auto number_of = [&](int unit) {
    return unit >= 0 && unit < num_units ? number[unit] : -1;
  };
  for (const Flow& flow : flows) {
    std::vector<int>& next = graph.next.emplace_back();
    if (flow.kind == Flow::Kind::kReturns) next.push_back(end);
    if (flow.target >= 0 && number_of(flow.target) >= 0) {
      next.push_back(number_of(flow.target));
    }
    const bool goes_on = flow.kind == Flow::Kind::kGoesOn;
    if (goes_on && number_of(flow.next) >= 0) {
      next.push_back(number_of(flow.next));
    }
  }
  graph.next.emplace_back();
  return graph;
}

// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on
// the graph turned round.
std::vector<int> FindPostdominators(const Graph& graph) {
  const int end = graph.end();
  std::vector<std::vector<int>> before(graph.next.size());
  for (size_t i = 0; i < graph.next.size(); ++i) {
    for (const int next : graph.next[i]) {
      before[next].push_back(static_cast<int>(i));
    }
  }
  // In postorder from the end.
  std::vector<int> order, place(graph.next.size(), -1);
  std::vector<std::pair<int, size_t>> stack = {{end, 0}};
  std::vector<bool> is_seen(graph.next.size());
  is_seen[end] = true;
  while (!stack.empty()) {
    auto& [node, at] = stack.back();
    if (at < before[node].size()) {
      const int next = before[node][at++];
      if (!is_seen[next]) {
        is_seen[next] = true;
        stack.push_back({next, 0});
      }
      continue;
    }
    place[node] = static_cast<int>(order.size());
    order.push_back(node);
    stack.pop_back();
  }
  std::vector<int> found(graph.next.size(), -1);
  found[end] = end;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      while (place[a] < place[b]) a = found[a];
      while (place[b] < place[a]) b = found[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order.rbegin() + 1; it != order.rend(); ++it) {
      int now = -1;
      for (const int next : graph.next[*it]) {
        if (place[next] < 0 || found[next] < 0) continue;
        now = now < 0 ? next : meet(now, next);
      }
      changed |= found[*it] != now;
      found[*it] = now;
    }
  }
  return found;
}

}  // namespace

Joins::Joins(PyCodeObject* code) {
  const std::vector<uint8_t> bytes = BytesOf(code);
  if (bytes.empty()) return;
  const Graph graph = MakeGraph(bytes);
  const std::vector<int> found = FindPostdominators(graph);
  by_unit_.assign(bytes.size() / 2, kEnd);
  for (int i = 0; i < graph.end(); ++i) {
    if (found[i] >= 0 && found[i] < graph.end()) {
      by_unit_[graph.units[i]] = graph.units[found[i]];
    }
  }
}

int Joins::Of(int unit) const {
  return unit < static_cast<int>(by_unit_.size()) ? by_unit_[unit] : kEnd;
}

}  // namespace mica
