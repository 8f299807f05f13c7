#include "python/torch_side/recorder/module_scopes.h"

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

std::string Join(const std::string& path, const std::string& name) {
  if (path.empty() || name.empty()) return absl::StrCat(path, name);
  return absl::StrCat(path, ".", name);
}

// Of the dict that is a module's attribute `name`: its parts or its tensors.
void ForEachItem(PyObject* module, const char* name,
                 absl::FunctionRef<void(const std::string&, PyObject*)> visit) {
  PyObject* attributes = InstanceDict(module);
  if (attributes == nullptr || !PyDict_Check(attributes)) return;
  PyObject* items = PyDict_GetItemString(attributes, name);
  if (items == nullptr || !PyDict_Check(items)) return;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(items, &position, &key, &value)) {
    if (value != Py_None) visit(PyText(key), value);
  }
}

// The code that runs whenever a module is called; null in a torch without it.
const PyCodeObject* FindModuleCall(PyObject* module_type) {
  PyRef call = PyRef::Steal(PyObject_GetAttrString(module_type, "_call_impl"));
  if (!call || !PyFunction_Check(call.get())) {
    PyErr_Clear();
    return nullptr;
  }
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(call.get()));
  return code->co_argcount > 0 ? code : nullptr;
}

}  // namespace

bool InitModuleScopes(std::string torch_dir, std::string mica_dir) {
  PyRef nn = PyRef::Steal(PyImport_ImportModule("torch.nn"));
  PyRef type =
      PyRef::Steal(nn ? PyObject_GetAttrString(nn.get(), "Module") : nullptr);
  return type && InitInterpreter({.torch_dir = std::move(torch_dir),
                                  .mica_dir = std::move(mica_dir),
                                  .module_type = AsType(type.get()),
                                  .module_call = FindModuleCall(type.get())});
}

ModuleScopes::Place ModuleScopes::Here() {
  const std::optional<uint64_t> node = CurrentGradientNode();
  Place place = {.module = CalledModule(), .is_backward = node.has_value()};
  if (!node.has_value()) {
    module_of_node_.try_emplace(NextGradientNode() - 1, place.module);
  } else if (place.module == kNone) {  // A recomputed call has its own.
    const auto it = module_of_node_.find(*node);
    if (it != module_of_node_.end()) place.module = it->second;
  }
  return place;
}

int32_t ModuleScopes::CalledModule() {
  int32_t number = kNone;
  bool is_known = true;
  ForEachCalledModule([&](PyObject* module) {
    const auto it = numbers_.find(module);
    is_known = it != numbers_.end();
    if (is_known) number = it->second;
    return false;
  });
  if (is_known) return number;
  const GilHolder gil;
  std::vector<PyObject*> called;
  ForEachCalledModule([&](PyObject* module) {
    called.push_back(module);
    return true;
  });
  for (size_t i = called.size(); i-- > 0;) AddTree(called[i]);
  return numbers_.at(called[0]);
}

void ModuleScopes::AddTree(PyObject* root) {
  if (numbers_.contains(root)) return;
  const auto first = static_cast<int32_t>(modules_.size());
  const auto add = [&](PyObject* module, std::string path) {
    const auto number = static_cast<int32_t>(modules_.size());
    if (!numbers_.try_emplace(module, number).second) return;
    modules_.push_back({.object = PyRef::Share(module),
                        .root = first,
                        .path = std::move(path)});
  };
  add(root, "");
  for (size_t i = first; i < modules_.size(); ++i) {
    const std::string path = modules_[i].path;
    ForEachItem(modules_[i].object.get(), "_modules",
                [&](const std::string& name, PyObject* part) {
                  add(part, Join(path, name));
                });
  }
}

std::string ModuleScopes::PrefixOf(
    int32_t root,
    const absl::flat_hash_map<PyObject*, const std::string*>& names) const {
  std::optional<std::string> prefix;
  for (const Module& module : modules_) {
    if (module.root != root || prefix.has_value()) continue;
    const auto compare = [&](const std::string& name, PyObject* tensor) {
      const auto it = names.find(tensor);
      if (it == names.end() || prefix.has_value()) return;
      absl::string_view way = *it->second;
      if (!absl::ConsumeSuffix(&way, Join(module.path, name))) return;
      if (!way.empty() && !absl::ConsumeSuffix(&way, ".")) return;
      prefix = std::string(way);
    };
    ForEachItem(module.object.get(), "_parameters", compare);
    ForEachItem(module.object.get(), "_buffers", compare);
  }
  return prefix.value_or("");
}

std::vector<std::string> ModuleScopes::Names(
    const std::vector<StateTensor>& states) const {
  const GilHolder gil;
  absl::flat_hash_map<PyObject*, const std::string*> state_names;
  for (const StateTensor& state : states) {
    state_names.try_emplace(state.tensor, &state.name);
  }
  absl::flat_hash_map<int32_t, std::string> prefixes;
  std::vector<std::string> names;
  for (const Module& module : modules_) {
    const auto [it, is_new] = prefixes.try_emplace(module.root);
    if (is_new) it->second = PrefixOf(module.root, state_names);
    names.push_back(Join(it->second, module.path));
  }
  return names;
}

}  // namespace mica
