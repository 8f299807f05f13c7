// A node of autograd's that hands gradients on.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_PASSING_NODE_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_PASSING_NODE_H_

#include <torch/csrc/autograd/function.h>

#include <string>
#include <utility>

namespace mica {

// Stands before another node, under a name of its own: what hangs on it sees
// what passes, and it has a turn of its own.
class PassingNode final : public torch::autograd::Node {
 public:
  // What hangs on it is its last output; of the others, nothing comes.
  explicit PassingNode(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override {
    return {std::move(gradients.back())};
  }

 private:
  const std::string name_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_PASSING_NODE_H_
