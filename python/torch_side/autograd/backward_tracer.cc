#include "python/torch_side/autograd/backward_tracer.h"

// Before the others: torch's own order of Python.h and these.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace mica {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

BackwardTracer::BackwardTracer(absl::Span<PyObject* const> results,
                               absl::Span<PyObject* const> externals,
                               uint64_t first_node, Recorder* recorder)
    : first_node_(first_node), recorder_(*recorder) {
  for (PyObject* result : results) {
    roots_.push_back(
        torch::autograd::impl::gradient_edge(THPVariable_Unpack(result)));
  }
  for (size_t i = 0; i < externals.size(); ++i) {
    const Edge edge =
        torch::autograd::impl::gradient_edge(THPVariable_Unpack(externals[i]));
    if (!edge.is_valid()) continue;
    pins_.push_back(edge.function);
    leaves_.try_emplace(KeyOf(edge), Leaf{.external = static_cast<int>(i)});
  }
}

std::string BackwardTracer::Explore() {
  std::vector<Node*> open;
  for (size_t i = 0; i < roots_.size(); ++i) {
    if (!results_.try_emplace(KeyOf(roots_[i]), static_cast<int>(i)).second) {
      return "is one with another result, for autograd";
    }
    if (leaves_.contains(KeyOf(roots_[i]))) {
      return "is a tensor that came in, for autograd";
    }
    if (std::string why = See(roots_[i], &open); !why.empty()) return why;
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const Edge& edge : node->next_edges()) {
      if (std::string why = See(edge, &open); !why.empty()) return why;
    }
  }
  std::vector<Node*> roots;
  for (const Edge& root : roots_) {
    roots.push_back(root.function.get());
    root_nodes_.insert(roots.back());
  }
  const auto is_inside = [this](const Edge& edge) {
    return edge.is_valid() && !leaves_.contains(KeyOf(edge)) &&
           !unseen_.contains(edge.function.get());
  };
  const GraphParts parts = DivideGraph(roots, is_inside);
  for (const auto& [of, begins] : parts.copies) {
    copied_into_[of.first].push_back({of.second, begins});
  }
  for (const bool is_used_up : parts.are_used_up) {
    parts_.push_back({.is_used_up = is_used_up});
  }
  for (auto& [node, step] : steps_) {
    step.part = parts.part_of.at(node);
    for (const Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      const auto it = leaves_.find(KeyOf(edge));
      if (it == leaves_.end()) continue;
      auto& leaf = it->second;
      ++leaf.num_uses;
      if (leaf.part >= 0 && leaf.part != step.part) leaf.is_of_several = true;
      leaf.part = step.part;
    }
  }
  return "";
}

void BackwardTracer::Run(absl::Span<const at::Tensor> gradients) {
  for (size_t i = 0; i < roots_.size(); ++i) Arrive(roots_[i], gradients[i]);
  while (!ready_.empty()) {
    Node* node = ready_.top();
    ready_.pop();
    if (const auto it = leaves_.find({node, 0}); it != leaves_.end()) {
      it->second.turn = num_turns_++;
      continue;
    }
    RunNode(node, &steps_.at(node));
  }
}

BackwardTrace BackwardTracer::Take() {
  BackwardTrace trace{.has_python = has_python_};
  std::vector<const Leaf*> leaves;
  for (const auto& [key, leaf] : leaves_) {
    if (leaf.gradient.defined()) leaves.push_back(&leaf);
  }
  absl::c_sort(leaves, &Leaf::IsBefore);
  for (const Leaf* leaf : leaves) {
    parts_[leaf->part].outputs.push_back({.gradient = leaf->gradient,
                                          .external = leaf->external,
                                          .entries = leaf->entries});
  }
  for (Part& part : parts_) {
    BackwardTrace::Part taken{.entries = std::move(part.entries),
                              .is_used_up = part.is_used_up};
    for (Output& output : part.outputs) {
      BackwardTrace::Output told{
          .gradient = PyRef::Steal(THPVariable_Wrap(output.gradient)),
          .external = output.external,
          .entries = std::move(output.entries)};
      told.entries.resize(taken.entries.size());
      if (output.external < 0) {
        const Step& target =
            output.copy < 0 ? steps_.at(output.target.first)
                            : copies_.at({output.target.first, output.copy});
        told.part = target.part;
        told.entry = target.entry_of.at(output.target.second);
      }
      taken.outputs.push_back(std::move(told));
    }
    trace.parts.push_back(std::move(taken));
  }
  return trace;
}

std::string BackwardTracer::See(const Edge& edge, std::vector<Node*>* open) {
  if (!edge.is_valid() || leaves_.contains(KeyOf(edge))) return "";
  Node* node = edge.function.get();
  if (IsUnseenLeaf(edge)) {
    unseen_.insert(node);
    return "";
  }
  auto [it, is_new] = steps_.try_emplace(node);
  ++it->second.num_uses;
  if (!is_new) return "";
  it->second.inputs.resize(node->num_inputs());
  it->second.arrived.resize(node->num_inputs());
  it->second.entry_of.resize(node->num_inputs(), -1);
  if (IsLeaf(*node)) {
    return "is made of a leaf that the program itself made, or that no "
           "Python object leads to";
  }
  if (node->sequence_nr() < first_node_) {
    return "is made of a tensor that came in unseen, with an autograd "
           "graph of its own";
  }
  if (IsFunctionInPython(*node)) {
    has_python_ = true;
    if (roots_.size() > 1 && node->num_inputs() > 1 && SeesAbsence(*node)) {
      return absl::StrCat("is made by ", node->name(),
                          ", which set_materialize_grads(False) lets see "
                          "which results are gone back from");
    }
  }
  if (HasHooks(*node)) return "has hooks on its gradients";
  open->push_back(node);
  return "";
}

bool BackwardTracer::IsUnseenLeaf(const Edge& edge) const {
  const auto* leaf =
      dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get());
  if (leaf == nullptr || results_.contains(KeyOf(edge)) ||
      HasHooks(*edge.function)) {
    return false;
  }
  const PyRef object = PyRef::Steal(THPVariable_Wrap(leaf->variable));
  return object && recorder_.HasMade(object.get());
}

void BackwardTracer::Enter(Node* node, Step* step) {
  for (uint32_t i = 0; i < step->arrived.size(); ++i) {
    if (!step->arrived[i].defined()) continue;
    const auto result = results_.find({node, i});
    const int index = result == results_.end() ? -1 : result->second;
    AddEntry(
        OnesLaidOutAs(std::move(step->arrived[i])),
        index < 0 ? "gradient" : absl::StrCat("gradient of result ", index),
        index, i, step);
  }
}

void BackwardTracer::AddEntry(at::Tensor gradient, const std::string& name,
                              int result, size_t input, Step* step) {
  Part& part = parts_[step->part];
  step->entry_of[input] = static_cast<int>(part.entries.size());
  PyRef root = PyRef::Steal(THPVariable_Wrap(std::move(gradient)));
  recorder_.AddInput(root.get(), name);
  part.entries.push_back(
      {.root = std::move(root), .result = result, .number = num_entries_++});
  step->entries.resize(part.entries.size());
  step->entries.back() = true;
}

void BackwardTracer::RunNode(Node* node, Step* step) {
  Enter(node, step);
  recorder_.StartLater(step->part);
  const absl::Cleanup stop = [this] { recorder_.Stop(); };
  const variable_list inputs = Summed(step);
  const variable_list outputs = Outputs(node, *step, inputs);
  for (uint32_t i = 0; i < node->num_outputs(); ++i) {
    const Edge& edge = node->next_edge(i);
    const Step* to = Inner(edge);
    const bool is_by_copy = to != nullptr &&
                            !root_nodes_.contains(edge.function.get()) &&
                            CopyIn(node, to->part) != nullptr;
    if (!is_by_copy) Pass(edge, outputs[i], *step);
  }
  const auto copies = copied_into_.find(node);
  if (copies == copied_into_.end()) return;
  recorder_.Stop();
  for (const Copied& copied : copies->second) {
    RunCopy(node, copied, *step, inputs);
  }
}

variable_list BackwardTracer::Summed(Step* step) {
  variable_list inputs = std::move(step->inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int entry = step->entry_of[i];
    if (entry < 0) continue;
    at::Tensor root =
        THPVariable_Unpack(parts_[step->part].entries[entry].root.get());
    AddGradient(inputs[i], &root);
    inputs[i] = std::move(root);
  }
  return inputs;
}

variable_list BackwardTracer::Outputs(Node* node, const Step& step,
                                      variable_list inputs) {
  // A node that no gradient arrives at makes none.
  const bool is_run = absl::c_any_of(
      inputs, [](const at::Tensor& input) { return input.defined(); });
  variable_list outputs(node->num_outputs());
  if (!is_run) return outputs;
  outputs = (*node)(std::move(inputs));
  parts_[step.part].is_used_up |=
      IsFunctionInPython(*node) && reads_.Has(*node);
  torch::autograd::validate_outputs(
      node->next_edges(), outputs, [node](const std::string& why) {
        return absl::StrCat(node->name(), ": ", why);
      });
  outputs.resize(node->num_outputs());
  return outputs;
}

void BackwardTracer::RunCopy(Node* node, const Copied& copied, const Step& step,
                             const variable_list& given) {
  Step& copy = CopyOf(node, copied.part);
  for (size_t i = 0; copied.begins && i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    parts_[step.part].outputs.push_back(
        {.gradient = given[i],
         .target = {node, static_cast<uint32_t>(i)},
         .copy = copied.part,
         .entries = step.entries});
    AddEntry(OnesLaidOutAs(given[i]), "gradient", -1, i, &copy);
  }
  recorder_.StartLater(copied.part);
  const variable_list outputs = Outputs(node, copy, Summed(&copy));
  for (uint32_t i = 0; i < node->num_outputs(); ++i) {
    const Edge& edge = node->next_edge(i);
    const Step* to = Inner(edge);
    if (to == nullptr) continue;
    if (to->part == copied.part && !root_nodes_.contains(edge.function.get())) {
      Pass(edge, outputs[i], copy);
      continue;
    }
    const Copied* next = CopyIn(edge.function.get(), copied.part);
    if (to->part != step.part || next == nullptr || next->begins) continue;
    if (!outputs[i].defined()) continue;
    Step& sum = CopyOf(edge.function.get(), copied.part);
    AddGradient(outputs[i], &sum.inputs[edge.input_nr]);
    AddEntries(copy.entries, &sum.entries);
  }
}

BackwardTracer::Step& BackwardTracer::CopyOf(Node* node, int part) {
  Step& copy = copies_[{node, part}];
  copy.part = part;
  copy.inputs.resize(node->num_inputs());
  copy.entry_of.resize(node->num_inputs(), -1);
  return copy;
}

const BackwardTracer::Copied* BackwardTracer::CopyIn(Node* node,
                                                     int part) const {
  const auto it = copied_into_.find(node);
  if (it == copied_into_.end()) return nullptr;
  const auto found = absl::c_find_if(
      it->second, [part](const Copied& one) { return one.part == part; });
  return found == it->second.end() ? nullptr : &*found;
}

const BackwardTracer::Step* BackwardTracer::Inner(const Edge& edge) const {
  if (!edge.is_valid() || leaves_.contains(KeyOf(edge))) return nullptr;
  const auto it = steps_.find(edge.function.get());
  return it == steps_.end() ? nullptr : &it->second;
}

void BackwardTracer::Pass(const Edge& edge, const at::Tensor& gradient,
                          const Step& from) {
  if (!edge.is_valid() || unseen_.contains(edge.function.get())) return;
  Part& part = parts_[from.part];
  if (const auto it = leaves_.find(KeyOf(edge)); it != leaves_.end()) {
    Leaf& leaf = it->second;
    if (--leaf.num_uses == 0 && IsLeaf(*edge.function)) {
      ready_.push(edge.function.get());
    }
    if (!gradient.defined()) return;
    if (leaf.is_of_several) {
      part.outputs.push_back({.gradient = gradient,
                              .external = leaf.external,
                              .entries = from.entries});
      return;
    }
    AddGradient(gradient, &leaf.gradient);
    AddEntries(from.entries, &leaf.entries);
    return;
  }
  Step& step = steps_.at(edge.function.get());
  if (step.part != from.part) {
    if (gradient.defined()) {
      part.outputs.push_back({.gradient = gradient,
                              .target = KeyOf(edge),
                              .entries = from.entries});
    }
    // Autograd itself adds it to what else arrives there.
    recorder_.Stop();
    Arrive(edge, gradient);
    recorder_.StartLater(from.part);
    return;
  }
  AddGradient(gradient, &step.inputs[edge.input_nr]);
  if (gradient.defined()) AddEntries(from.entries, &step.entries);
  if (--step.num_uses == 0) ready_.push(edge.function.get());
}

void BackwardTracer::Arrive(const Edge& edge, const at::Tensor& gradient) {
  Step& step = steps_.at(edge.function.get());
  AddGradient(gradient, &step.arrived[edge.input_nr]);
  if (--step.num_uses == 0) ready_.push(edge.function.get());
}

}  // namespace mica
