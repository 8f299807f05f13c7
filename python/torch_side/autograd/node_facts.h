// What autograd's nodes are like, and what they are given.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_NODE_FACTS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_NODE_FACTS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

#include "python/torch_side/autograd/saved_reads.h"

namespace mica {

// True for the node of a torch.autograd.Function that is written in Python.
bool IsFunctionInPython(const torch::autograd::Node& node);
// Of such a node: whether its backward() finds no zeros where no gradient
// arrives.
bool SeesAbsence(const torch::autograd::Node& node);
// Whether something is called when gradients arrive at it or leave it.
bool HasHooks(torch::autograd::Node& node);
// True for the one that adds what arrives to the .grad of a leaf.
bool IsLeaf(const torch::autograd::Node& node);
// Whether a backward pass that retains nothing goes through it only once: it
// has saved tensors, or is of a write to a view. False for a node in Python: of
// those SavedReads tells. Requires the GIL.
bool IsUsedUpByPass(torch::autograd::Node* node);
// Whether a backward pass has used it up. `reads` lived while it ran.
bool HasReleasedTensors(torch::autograd::Node* node, const SavedReads& reads);

// Adds a gradient to those that have arrived, if both are there.
void AddGradient(const at::Tensor& gradient, at::Tensor* sum);
// Sets what is set in `from`.
void AddEntries(const std::vector<bool>& from, std::vector<bool>* to);

// Ones in the memory layout of `like`, whose elements may lie upon each other.
at::Tensor OnesLaidOutAs(const at::Tensor& like);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_NODE_FACTS_H_
