// What a program leaves changed in containers that a call passed to it.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_ARGUMENT_CHANGES_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_ARGUMENT_CHANGES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/guards/input_guards.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Changes of the containers at some nodes of the arguments. What they are to
// hold is made anew at each hit, then Apply() puts it there. Immutable.
class ArgumentChanges {
 public:
  ArgumentChanges() = default;
  // Adds what is to be put to `left`, in the order of Apply()'s `values`.
  ArgumentChanges(std::vector<InputGuards::Change> changes,
                  std::vector<PyObject*>* left);

  bool empty() const { return changes_.empty(); }
  // False, with a Python error set, if there is no memory. The last of
  // `values` are its own.
  bool Apply(const BoundInputs& inputs, absl::Span<const PyRef> values) const;

  // "changes items" each.
  std::vector<std::string> ToText() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  size_t num_values_ = 0;
  std::vector<InputGuards::Change> changes_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_ARGUMENT_CHANGES_H_
