// Whether the dispatcher still has the kernels that it had for a run.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_OPERATOR_KERNELS_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_OPERATOR_KERNELS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mica {

// The operators of ATen's that a thread called, composite ones and those that
// they call included, and how many kernels each had: torch.library may give
// them others.
class OperatorKernels {
 public:
  OperatorKernels();
  ~OperatorKernels();
  OperatorKernels(OperatorKernels&&) noexcept;
  OperatorKernels& operator=(OperatorKernels&&) noexcept;

  // Between the two each operator that this thread calls is noted; one
  // OperatorKernels a thread.
  void Start();
  void Stop();

  // False once a noted operator has got a kernel, or lost one.
  bool Hold() const {
    for (const Noted& noted : noted_) {
      if (*noted.count != noted.recorded) return false;
    }
    return true;
  }
  // Asks for what Hold() reads.
  void Prefetch() const {
    for (const Noted& noted : noted_) __builtin_prefetch(noted.count, 0, 2);
  }
  // The name of the operator of which that is so; "" for none.
  std::string FindChanged() const;
  // A noted operator of ATen's that has a kernel of somebody else's, written in
  // Python; "" for none.
  std::string FindReplaced() const;

 private:
  struct Noted {
    const size_t* count = nullptr;  // The dispatcher's own.
    size_t recorded = 0;
  };
  struct Names;
  std::unique_ptr<Names> names_;
  std::vector<Noted> noted_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_OPERATOR_KERNELS_H_
