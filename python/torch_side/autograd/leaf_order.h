// The order in which leaves get their gradients.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_LEAF_ORDER_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_LEAF_ORDER_H_

#include <torch/csrc/autograd/edge.h>

namespace mica {

// Makes of a node's edges what gives leaves their gradients one by one, in the
// edges' order, if a leaf among them has hooks, which would show another one:
// leaves that are ready at once have no order for autograd.
void PutLeavesInOrder(torch::autograd::edge_list* edges);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_LEAF_ORDER_H_
