// Whether the dispatcher still has the kernels that it had for a run.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_OPERATOR_KERNELS_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_OPERATOR_KERNELS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/base/prefetch.h"
#include "framework/ir/program.h"

namespace mica {

// The operators of ATen's that a thread called, composite ones and those that
// they call included, the functional forms by which a record runs what they
// did in place, and how many kernels each had: torch.library may give them
// others.
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
  // After Stop(): what was recorded is run by a Program's operators, too,
  // "aten.mul.Tensor" perhaps where the thread called mul_ or mul.out. True if
  // one wasn't noted before.
  bool AddRuns(const Program& program);
  // The thread calls an operator whose kernel is in Python, "mine::add/Tensor",
  // which is followed by what it calls: that kernel has to stay, too.
  void Follow(const std::string& name) { followed_.push_back({.name = name}); }

  // False once a noted operator has got a kernel, or lost one.
  bool Hold() const {
    for (const Noted& noted : noted_) {
      if (*noted.count != noted.recorded) return false;
    }
    return followed_.empty() || FindChangedFollowed().empty();
  }
  // Asks for what Hold() reads.
  void Prefetch() const {
    for (const Noted& noted : noted_) PrefetchLine(noted.count);
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
  struct Followed {
    std::string name;
    size_t recorded = 0;
  };
  struct Names;
  std::string FindChangedFollowed() const;
  void Note(const std::string& name);
  bool AddRun(absl::string_view op);
  std::unique_ptr<Names> names_;
  std::vector<Noted> noted_;
  std::vector<Followed> followed_;
};

// Whether torch.library has a kernel below autograd for operator
// "mine::add/Tensor" that is written in Python. Takes the GIL.
bool IsOperatorInPython(const std::string& name);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_OPERATOR_KERNELS_H_
