#include <Python.h>
// Before the others: torch's own order of Python.h and these.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "python/torch_side/autograd/graph_parts.h"
#include "python/torch_side/autograd/node_facts.h"

namespace mica {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

class Divider {
 public:
  Divider(absl::Span<Node* const> roots,
          const std::function<bool(const Edge&)>& is_inside)
      : roots_(roots.begin(), roots.end()), is_inside_(is_inside) {
    for (size_t i = 0; i < roots.size(); ++i) Reach(roots[i], i);
    std::map<std::vector<int>, int> parts;
    for (auto& [node, from] : reached_from_) {
      const auto [it, is_new] =
          parts.try_emplace(from, static_cast<int>(parts_.size()));
      if (is_new) parts_.push_back({.num_roots = from.size()});
      part_of_[node] = it->second;
    }
    for (const auto& [node, part] : part_of_) {
      for (const Edge& edge : node->next_edges()) {
        if (!is_inside_(edge)) continue;
        const int other = part_of_.at(edge.function.get());
        if (other == part) continue;
        parts_[part].leads_to.insert(other);
        // Whoever has that root sees the gradient that arrives there.
        if (IsRoot(edge.function.get())) parts_[part].leads_to_root = true;
      }
    }
    Look();
  }

  GraphParts Divide() {
    std::vector<int> order(parts_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [this](int a, int b) {
      return parts_[a].num_roots < parts_[b].num_roots;
    });
    // Each merger may make another one possible.
    while (std::any_of(order.begin(), order.end(),
                       [this](int part) { return Merge(part); })) {
    }
    const std::vector<int> left = Order();
    GraphParts divided;
    for (size_t i = 0; i < left.size(); ++i) {
      parts_[left[i]].number = static_cast<int>(i);
      divided.are_used_up.push_back(parts_[left[i]].is_used_up);
    }
    for (const auto& [node, part] : part_of_) {
      divided.part_of[node] = parts_[Final(part)].number;
    }
    FindCopies(&divided);
    return divided;
  }

 private:
  struct Part {
    size_t num_roots = 0;
    std::set<int> leads_to;
    bool leads_to_root = false;
    bool is_used_up = false;
    bool is_in_python = false;  // Some of it.
    uint64_t youngest = 0;
    int merged_into = -1;
    int number = -1;
  };

  void Reach(Node* root, size_t number) {
    std::vector<Node*> open = {root};
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      std::vector<int>& from = reached_from_[node];
      if (!from.empty() && from.back() == static_cast<int>(number)) continue;
      from.push_back(static_cast<int>(number));
      for (const Edge& edge : node->next_edges()) {
        if (is_inside_(edge)) open.push_back(edge.function.get());
      }
    }
  }

  // What the parts' nodes are like.
  void Look() {
    for (const auto& [node, number] : part_of_) {
      Part& part = parts_[number];
      part.youngest = std::max(part.youngest, node->sequence_nr());
      part.is_used_up = part.is_used_up || IsUsedUpByPass(node);
      part.is_in_python = part.is_in_python || IsFunctionInPython(*node);
    }
  }

  int Final(int part) const {
    while (parts_[part].merged_into >= 0) part = parts_[part].merged_into;
    return part;
  }

  // The parts that are left: what one leads to comes before it, and of two
  // that may come next the one whose youngest node is older.
  std::vector<int> Order() const {
    std::set<int> open;
    for (size_t i = 0; i < parts_.size(); ++i) {
      open.insert(Final(static_cast<int>(i)));
    }
    std::vector<std::set<int>> leads_to(parts_.size());
    for (size_t i = 0; i < parts_.size(); ++i) {
      const int from = Final(static_cast<int>(i));
      for (const int to : parts_[i].leads_to) {
        if (Final(to) != from) leads_to[from].insert(Final(to));
      }
    }
    std::vector<int> order;
    while (!open.empty()) {
      int next = -1;
      for (const int part : open) {
        const bool is_ready =
            std::none_of(leads_to[part].begin(), leads_to[part].end(),
                         [&open](int to) { return open.contains(to); });
        if (is_ready &&
            (next < 0 || parts_[part].youngest < parts_[next].youngest)) {
          next = part;
        }
      }
      open.erase(next);
      order.push_back(next);
    }
    return order;
  }

  // True if the part has become one with another.
  bool Merge(int number) {
    Part& part = parts_[number];
    if (part.merged_into >= 0 || part.is_used_up || part.is_in_python ||
        part.leads_to_root) {
      return false;
    }
    std::set<int> others;
    for (const int other : part.leads_to) others.insert(Final(other));
    if (others.size() != 1) return false;
    part.merged_into = *others.begin();
    Part& other = parts_[part.merged_into];
    other.youngest = std::max(other.youngest, part.youngest);
    return true;
  }

  // To go by few edges costs less than to run nodes again.
  static constexpr size_t kFewestEdges = 3;

  bool IsCopied(Node* node) const {
    return !IsUsedUpByPass(node) && !IsFunctionInPython(*node);
  }
  bool IsRoot(Node* node) const { return roots_.count(node) > 0; }

  void FindCopies(GraphParts* divided) const {
    const auto& part_of = divided->part_of;
    absl::flat_hash_map<Node*, std::set<Node*>> from;
    // By part and the one that it leads to: where the edges begin.
    std::map<std::pair<int, int>, std::vector<Node*>> edges;
    for (const auto& [node, part] : part_of) {
      for (const Edge& edge : node->next_edges()) {
        if (!is_inside_(edge)) continue;
        Node* to = edge.function.get();
        from[to].insert(node);
        const int other = part_of.at(to);
        if (other == part || IsRoot(to) || !IsCopied(node)) continue;
        edges[{part, other}].push_back(node);
      }
    }
    for (const auto& [parts, starts] : edges) {
      if (starts.size() < kFewestEdges) continue;
      const auto [part, other] = parts;
      std::set<Node*> copied;
      std::vector<Node*> open = starts;
      while (!open.empty()) {
        Node* node = open.back();
        open.pop_back();
        if (!copied.insert(node).second) continue;
        absl::c_copy_if(from[node], std::back_inserter(open), [&](Node* one) {
          return part_of.at(one) == part && IsCopied(one);
        });
      }
      const auto begins = [&](Node* node) {
        return IsRoot(node) || absl::c_any_of(from[node], [&](Node* one) {
                 return !copied.contains(one);
               });
      };
      if (absl::c_count_if(copied, begins) >=
          static_cast<int64_t>(starts.size())) {
        continue;
      }
      for (Node* node : copied) divided->copies[{node, other}] = begins(node);
    }
  }

  const std::set<Node*> roots_;
  const std::function<bool(const Edge&)>& is_inside_;
  absl::flat_hash_map<Node*, std::vector<int>> reached_from_;
  absl::flat_hash_map<Node*, int> part_of_;
  std::vector<Part> parts_;
};

}  // namespace

GraphParts DivideGraph(absl::Span<Node* const> roots,
                       const std::function<bool(const Edge&)>& is_inside) {
  return Divider(roots, is_inside).Divide();
}

}  // namespace mica
