// What a call hands to ATen: tensors that are lent, constants, generators.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_OPERANDS_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_OPERANDS_H_

// Before the others: torch's own order of these.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "framework/tensor/tensor_type.h"
#include "python/torch_side/opaque/aten_arguments.h"
#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {

// Whether the operator draws all elements that it writes, and changes none.
bool OnlyDraws(const c10::OperatorHandle& op);

// The operands of one operator, for calls on any thread. The fields are set
// before the first.
class AtenOperands {
 public:
  // Of one call.
  struct Given {
    torch::jit::Stack arguments;
    torch::jit::Stack stack;          // Of the call, empty before and after.
    std::vector<at::Tensor> tensors;  // In order, if they may be kept.
  };

  std::vector<AtenParam> params;
  std::vector<TensorType> types;
  std::vector<LazyBits> lazy;  // Of the tensors, in order; empty for none.
  bool overwrites = false;     // What is written, whatever that was.

  // From now on a call's tensors are kept for the next, if the operator reads
  // nothing but tensors, given one by one, and constants: to make them takes
  // longer than a small operator. Not for one that may keep an operand.
  void KeepSpare();

  // `args` are the operands' addresses. What would be written is a copy.
  std::unique_ptr<Given> Give(void* const* args) const;
  void TakeBack(std::unique_ptr<Given> given) const;

 private:
  class Spare;
  class Reader;

  bool AreArrays() const;

  // Null if none are kept.
  std::shared_ptr<Spare> spare_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_OPERANDS_H_
