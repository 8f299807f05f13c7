// Which modules the recorded calls belong to.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_MODULE_SCOPES_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_MODULE_SCOPES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/recorder/recorder.h"

namespace mica {

// Makes the interpreter's side ready, which knows no torch: tells it what a
// module is. False with a Python error set. Once, after torch is imported.
bool InitModuleScopes(std::string torch_dir, std::string mica_dir);

// Follows the calls of a run: a forward one belongs to the innermost module
// that is being called, a backward one to the module of the call whose gradient
// it computes. A hint for placing ops, never a fact that a record rests on.
//
// Single-thread, the recorded one; holds the modules that it has seen.
class ModuleScopes {
 public:
  // A module's number; of no module.
  static constexpr int32_t kNone = -1;

  struct Place {
    int32_t module = kNone;
    bool is_backward = false;
  };
  // Of the call that has just run.
  Place Here();

  // By number, what users call the modules: the way to it as in the names of
  // `states`, "model.encoder.layer.3"; "" for one without a way.
  std::vector<std::string> Names(const std::vector<StateTensor>& states) const;

 private:
  struct Module {
    PyRef object;
    int32_t root = 0;  // Number of the module that it is part of.
    std::string path;  // From there: "encoder.layer.3".
  };
  int32_t CalledModule();
  // Adds a module and those that are part of it.
  void AddTree(PyObject* root);
  // The way to a module that isn't part of another one.
  std::string PrefixOf(
      int32_t root,
      const absl::flat_hash_map<PyObject*, const std::string*>& names) const;

  std::vector<Module> modules_;
  absl::flat_hash_map<PyObject*, int32_t> numbers_;
  // The module that made a node of autograd's graph.
  absl::flat_hash_map<uint64_t, int32_t> module_of_node_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_MODULE_SCOPES_H_
