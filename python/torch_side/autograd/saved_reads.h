// Which functions in Python look at what they saved.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_SAVED_READS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_SAVED_READS_H_

#include <torch/csrc/autograd/function.h>

#include "absl/container/flat_hash_set.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// The contexts of torch.autograd.Functions whose saved tensors were asked for
// while this lives. A backward pass uses up what they saved, but those alone
// that ask for it raise when another one comes. Requires the GIL.
class SavedReads {
 public:
  SavedReads();
  ~SavedReads();
  SavedReads(const SavedReads&) = delete;
  SavedReads& operator=(const SavedReads&) = delete;

  // Of a node in Python that has lived since.
  bool Has(const torch::autograd::Node& node) const;

 private:
  static PyObject* Get(PyObject* context, void* attribute);
  static bool Observe();

  absl::flat_hash_set<const PyObject*> contexts_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_SAVED_READS_H_
