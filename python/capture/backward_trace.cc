// How BackwardTrace is made: autograd's own way through its graph, but in the
// midst of a capture, and only as far as the tensors that came in.

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <queue>
#include <typeinfo>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "python/capture/backward_pass.h"

namespace mica {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

// By name: torch keeps the type to itself.
bool IsFunctionInPython(const Node& node) {
  return absl::string_view(typeid(node).name()) == "N5torch8autograd6PyNodeE";
}

bool HasHooks(Node& node) {
  return !(node.pre_hooks().empty() && node.post_hooks().empty() &&
           node.tensor_pre_hooks().empty() &&
           node.retains_grad_hooks().empty());
}

class Tracer {
 public:
  Tracer(absl::Span<PyObject* const> results,
         absl::Span<PyObject* const> externals, uint64_t first_node)
      : num_results_(results.size()), first_node_(first_node) {
    for (PyObject* result : results) {
      roots_.push_back(
          torch::autograd::impl::gradient_edge(THPVariable_Unpack(result)));
    }
    for (size_t i = 0; i < externals.size(); ++i) {
      const Edge edge = torch::autograd::impl::gradient_edge(
          THPVariable_Unpack(externals[i]));
      if (!edge.is_valid()) continue;
      pins_.push_back(edge.function);
      leaves_.try_emplace({edge.function.get(), edge.input_nr},
                          Leaf{.external = static_cast<int>(i)});
    }
  }

  // Finds the nodes on the way; why one can't be run now and again later.
  std::string Explore() {
    std::vector<Node*> open;
    const auto see = [&](const Edge& edge) -> std::string {
      if (!edge.is_valid() || leaves_.contains(KeyOf(edge))) return "";
      Node* node = edge.function.get();
      auto [it, is_new] = steps_.try_emplace(node);
      ++it->second.num_uses;
      if (!is_new) return "";
      it->second.inputs.resize(node->num_inputs());
      if (dynamic_cast<torch::autograd::AccumulateGrad*>(node) != nullptr) {
        return "is made of a leaf that the program itself made, or that no "
               "Python object leads to";
      }
      if (node->sequence_nr() < first_node_) {
        return "is made of a tensor that came in unseen, with an autograd "
               "graph of its own";
      }
      if (IsFunctionInPython(*node)) {
        return absl::StrCat("is made by ", node->name(),
                            ", an autograd.Function in Python");
      }
      if (HasHooks(*node)) return "has hooks on its gradients";
      open.push_back(node);
      return "";
    };
    for (const Edge& root : roots_) {
      if (std::string why = see(root); !why.empty()) return why;
    }
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (const Edge& edge : node->next_edges()) {
        if (std::string why = see(edge); !why.empty()) return why;
      }
    }
    return "";
  }

  // Runs them. A node whose inputs have all arrived is ready; of those the
  // youngest comes first, as in autograd's own engine.
  void Run(absl::Span<PyObject* const> gradients) {
    for (size_t i = 0; i < roots_.size(); ++i) {
      std::vector<bool> results(num_results_);
      results[i] = true;
      Pass(roots_[i], THPVariable_Unpack(gradients[i]), results);
    }
    while (!ready_.empty()) {
      Node* node = ready_.top();
      ready_.pop();
      Step step = std::move(steps_.at(node));
      // A node that no gradient arrives at makes none.
      const bool is_run =
          std::any_of(step.inputs.begin(), step.inputs.end(),
                      [](const at::Tensor& input) { return input.defined(); });
      variable_list outputs(node->num_outputs());
      if (is_run) {
        outputs = (*node)(std::move(step.inputs));
        torch::autograd::validate_outputs(
            node->next_edges(), outputs, [node](const std::string& why) {
              return absl::StrCat(node->name(), ": ", why);
            });
      }
      for (uint32_t i = 0; i < node->num_outputs(); ++i) {
        const bool is_made = i < outputs.size() && outputs[i].defined();
        Pass(node->next_edge(i), is_made ? outputs[i] : at::Tensor(),
             is_made ? step.results : std::vector<bool>(num_results_));
      }
    }
  }

  std::vector<BackwardTrace::Leaf> Leaves() const {
    std::vector<BackwardTrace::Leaf> leaves;
    for (const auto& [key, leaf] : leaves_) {
      if (!leaf.gradient.defined()) continue;
      leaves.push_back(
          {.external = leaf.external,
           .gradient = PyRef::Steal(THPVariable_Wrap(leaf.gradient)),
           .results = leaf.results});
    }
    std::sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) {
      return a.external < b.external;
    });
    return leaves;
  }

 private:
  using Key = std::pair<const Node*, uint32_t>;
  struct Step {
    variable_list inputs;
    int num_uses = 0;           // Edges that lead here and weren't passed.
    std::vector<bool> results;  // Which results what arrived is made of.
  };
  struct Leaf {
    int external = 0;
    at::Tensor gradient;
    std::vector<bool> results;
  };
  struct Younger {
    bool operator()(const Node* a, const Node* b) const {
      return a->sequence_nr() < b->sequence_nr();
    }
  };

  static Key KeyOf(const Edge& edge) {
    return {edge.function.get(), edge.input_nr};
  }

  static void Add(const at::Tensor& gradient, at::Tensor* sum) {
    if (!gradient.defined()) return;
    *sum = sum->defined() ? *sum + gradient : gradient;
  }

  static void AddResults(const std::vector<bool>& from, std::vector<bool>* to) {
    to->resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i]) (*to)[i] = true;
    }
  }

  void Pass(const Edge& edge, const at::Tensor& gradient,
            const std::vector<bool>& results) {
    if (!edge.is_valid()) return;
    if (const auto it = leaves_.find(KeyOf(edge)); it != leaves_.end()) {
      Add(gradient, &it->second.gradient);
      AddResults(results, &it->second.results);
      return;
    }
    Step& step = steps_.at(edge.function.get());
    Add(gradient, &step.inputs[edge.input_nr]);
    AddResults(results, &step.results);
    if (--step.num_uses == 0) ready_.push(edge.function.get());
  }

  const size_t num_results_;
  const uint64_t first_node_;
  std::vector<Edge> roots_;
  std::vector<c10::intrusive_ptr<Node>> pins_;
  absl::flat_hash_map<Key, Leaf> leaves_;
  absl::flat_hash_map<Node*, Step> steps_;
  std::priority_queue<Node*, std::vector<Node*>, Younger> ready_;
};

}  // namespace

std::pair<BackwardTrace, std::string> TraceBackward(
    absl::Span<PyObject* const> results, absl::Span<PyObject* const> externals,
    uint64_t first_node, Recorder* recorder) {
  BackwardTrace trace;
  const c10::AutoGradMode no_grad(false);
  // As outside of autocast, where a backward pass belongs.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      c10::DispatchKey::AutocastCPU);
  try {
    Tracer tracer(results, externals, first_node);
    if (std::string why = tracer.Explore(); !why.empty()) {
      return {std::move(trace), std::move(why)};
    }
    std::vector<PyObject*> roots;
    for (size_t i = 0; i < results.size(); ++i) {
      const at::Tensor& result = THPVariable_Unpack(results[i]);
      trace.roots.push_back(PyRef::Steal(THPVariable_Wrap(
          at::ones_like(result, {}, at::MemoryFormat::Preserve))));
      roots.push_back(trace.roots.back().get());
      recorder->AddInput(roots.back(), absl::StrCat("gradient of result ", i));
    }
    recorder->StartLater();
    const absl::Cleanup stop = [recorder] { recorder->Stop(); };
    tracer.Run(roots);
    trace.leaves = tracer.Leaves();
  } catch (const std::exception& error) {
    std::string why = error.what();
    return {std::move(trace), absl::StrCat("can't be gone back from: ",
                                           why.substr(0, why.find('\n')))};
  }
  return {std::move(trace), ""};
}

}  // namespace mica
