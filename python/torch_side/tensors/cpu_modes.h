// Modes that change nothing: the CPU as default device.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_CPU_MODES_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_CPU_MODES_H_

#include <memory>
#include <vector>

#include "python/interpreter/cpython.h"

namespace c10 {
struct SafePyObject;
}

namespace mica {

// To be called once, before programs run. Throws std::bad_alloc.
void InitCpuModes();

// torch.device of the CPU.
bool IsCpuDevice(PyObject* object);

// Whether all of this thread's torch function modes are those that
// torch.set_default_device("cpu") and `with torch.device("cpu")` push, and
// change nothing: torch.Tensor's methods are torch's.
bool AreCpuModes();

// Takes such modes off this thread's stack for a watched run, where they would
// only have each of torch's functions call Python code that calls it again.
class CpuModes {
 public:
  CpuModes() = default;
  CpuModes(const CpuModes&) = delete;
  CpuModes& operator=(const CpuModes&) = delete;
  ~CpuModes() { End(); }

  // From here on they are hidden.
  void Begin() {
    is_on_ = true;
    Hide();
  }
  void End() {
    is_on_ = false;
    Show();
  }
  // For code that uses the stack itself, until the next Hide().
  void Show();
  // Hides them, and those that came since, if there are no others.
  void Hide();
  bool are_hidden() const { return !hidden_.empty(); }

 private:
  using Mode = std::shared_ptr<c10::SafePyObject>;

  bool is_on_ = false;
  std::vector<Mode> hidden_;  // As they lay on the stack, the lowest first.
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_CPU_MODES_H_
