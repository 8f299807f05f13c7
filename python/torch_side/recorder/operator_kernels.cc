#include "python/torch_side/recorder/operator_kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/ir/control_flow.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"

namespace mica {
namespace {

// The dispatcher counts the kernels of an operator, and shows that to nobody:
// an explicit instantiation may name what is private.
struct DefinitionOf {};
auto MemberOf(DefinitionOf);
template <auto kMember>
struct Opened {
  friend auto MemberOf(DefinitionOf) { return kMember; }
};
template struct Opened<&c10::OperatorHandle::operatorDef_>;

auto* Definition(const c10::OperatorHandle& op) {
  return op.*MemberOf(DefinitionOf());
}

// Keys under which a call on the CPU may find a kernel.
constexpr absl::string_view kKeysOfCpu[] = {
    "CPU",
    "Autograd",
    "AutogradCPU",
    "AutocastCPU",
    "ADInplaceOrView",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "BackendSelect",
    "Functionalize",
    "PreDispatch"};

// Names that this thread notes, or null.
thread_local absl::flat_hash_set<std::string>* noting = nullptr;

std::unique_ptr<at::ObserverContext> OnCall(const at::RecordFunction& call) {
  if (noting == nullptr) return nullptr;
  const auto name = call.operator_name();
  if (name.has_value()) {
    noting->insert(absl::StrCat(name->name, "/", name->overload_name));
  }
  return nullptr;
}

// "aten::add/Tensor" as torch.library writes it: "aten/add.Tensor".
std::string ImplName(const std::string& name) {
  std::string word = absl::StrReplaceAll(name, {{"::", "/"}});
  const size_t slash = word.rfind('/');
  if (slash + 1 == word.size()) {
    word.resize(slash);
  } else {
    word[slash] = '.';
  }
  return word;
}

// torch.library's own set: "aten/add.Tensor/CPU". Null if it has none.
PyRef KernelsInPython() {
  const PyRef library = PyRef::Steal(PyImport_ImportModule("torch.library"));
  PyRef impls =
      library ? PyRef::Steal(PyObject_GetAttrString(library.get(), "_impls"))
              : PyRef();
  if (impls && PyAnySet_Check(impls.get())) return impls;
  PyErr_Clear();
  return {};
}

// "aten::add/Tensor" of "aten::add_/Tensor"; others as they are.
std::string WithoutUnderscore(const std::string& name) {
  const size_t slash = name.rfind('/');
  if (slash < 2 || name[slash - 1] != '_' || name[slash - 2] == '_') {
    return name;
  }
  return name.substr(0, slash - 1) + name.substr(slash);
}

std::optional<c10::OperatorHandle> Find(const std::string& name) {
  const size_t slash = name.rfind('/');
  return c10::Dispatcher::singleton().findOp(
      {name.substr(0, slash), name.substr(slash + 1)});
}

}  // namespace

struct OperatorKernels::Names {
  absl::flat_hash_set<std::string> names;  // "aten::add/Tensor".
  at::CallbackHandle callback = 0;
};

OperatorKernels::OperatorKernels() : names_(std::make_unique<Names>()) {}
OperatorKernels::~OperatorKernels() = default;
OperatorKernels::OperatorKernels(OperatorKernels&&) noexcept = default;
OperatorKernels& OperatorKernels::operator=(OperatorKernels&&) noexcept =
    default;

void OperatorKernels::Start() {
  noting = &names_->names;
  names_->callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&OnCall).scopes({at::RecordScope::FUNCTION}));
}

void OperatorKernels::Stop() {
  if (noting != &names_->names) return;
  noting = nullptr;
  at::removeCallback(names_->callback);
  noted_.clear();
  for (Followed& followed : followed_) {
    if (const auto op = Find(followed.name); op.has_value()) {
      followed.recorded = Definition(*op)->def_and_impl_count;
    }
  }
  std::vector<std::string> forms;
  for (const std::string& name : names_->names) {
    forms.push_back(WithoutUnderscore(name));
  }
  names_->names.insert(forms.begin(), forms.end());
  for (const std::string& name : names_->names) Note(name);
}

void OperatorKernels::Note(const std::string& name) {
  // Those of others are left to the dispatcher, and may be gone one day.
  const auto op = absl::StartsWith(name, "aten::") ? Find(name) : std::nullopt;
  if (!op.has_value()) return;
  const size_t& count = Definition(*op)->def_and_impl_count;
  noted_.push_back({.count = &count, .recorded = count});
}

bool OperatorKernels::AddRuns(const Program& program) {
  bool are_more = false;
  ForEachOp(program, [this, &are_more](const Op& op) {
    are_more |= AddRun(op.def->name());
  });
  return are_more;
}

bool OperatorKernels::AddRun(absl::string_view op) {
  // What only its strides tell from another has a longer name.
  const size_t begin = op.find("aten.");
  if (begin == absl::string_view::npos) return false;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(op.substr(begin), '.');
  std::string name =
      absl::StrCat("aten::", parts[1], "/", parts.size() > 2 ? parts[2] : "");
  if (!names_->names.insert(name).second) return false;
  Note(name);
  return true;
}

// Their operators may be gone, or be others of that name.
std::string OperatorKernels::FindChangedFollowed() const {
  for (const Followed& followed : followed_) {
    const auto op = Find(followed.name);
    if (!op.has_value() ||
        Definition(*op)->def_and_impl_count != followed.recorded) {
      return followed.name;
    }
  }
  return "";
}

std::string OperatorKernels::FindChanged() const {
  if (std::string name = FindChangedFollowed(); !name.empty()) return name;
  for (const std::string& name : names_->names) {
    const auto op = Find(name);
    if (!op.has_value()) continue;
    const size_t& count = Definition(*op)->def_and_impl_count;
    for (const Noted& noted : noted_) {
      if (noted.count == &count && noted.recorded != count) return name;
    }
  }
  return "";
}

std::string OperatorKernels::FindReplaced() const {
  const PyRef impls = KernelsInPython();
  if (!impls) return "";
  absl::flat_hash_map<std::string, const std::string*> words;
  for (const std::string& name : names_->names) {
    if (absl::StartsWith(name, "aten::")) words.emplace(ImplName(name), &name);
  }
  Py_ssize_t position = 0;
  PyObject* item = nullptr;
  while (NextItem(impls.get(), &position, &item)) {
    const std::string impl = PyText(item);
    const size_t slash = impl.rfind('/');
    if (slash == std::string::npos) continue;
    const absl::string_view all = impl;
    if (!absl::c_linear_search(kKeysOfCpu, all.substr(slash + 1))) continue;
    const auto replaced = words.find(all.substr(0, slash));
    if (replaced != words.end()) return *replaced->second;
  }
  return "";
}

bool IsOperatorInPython(const std::string& name) {
  if (absl::StartsWith(name, "aten::")) return false;
  const GilHolder gil;
  const PyErrorKeeper keeper;
  const PyRef impls = KernelsInPython();
  if (!impls) return false;
  for (const char* key :
       {"CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd",
        "CompositeExplicitAutogradNonFunctional"}) {
    const std::string impl = absl::StrCat(ImplName(name), "/", key);
    const PyRef word = PyRef::Steal(PyUnicode_FromString(impl.c_str()));
    if (word && PySet_Contains(impls.get(), word.get()) == 1) return true;
  }
  return false;
}

}  // namespace mica
