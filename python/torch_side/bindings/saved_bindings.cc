#include <ATen/core/Tensor.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/autograd/python_variable.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/saved/saved_program.h"
#include "ops/all.h"
#include "python/bridge/bindings.h"
#include "python/bridge/status.h"
#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {
namespace {

namespace nb = nanobind;

PyProgram Rename(const PyProgram& self,
                 const std::map<std::string, std::string>& names) {
  const absl::flat_hash_map<std::string, std::string> map(names.begin(),
                                                          names.end());
  return {std::make_shared<const Program>(
      ValueOrThrow(RenameVariables(*self.program, map, AllOps())))};
}

PyProgram KeepOutputs(const PyProgram& self, const std::vector<int>& indices) {
  std::vector<ValueId> outputs;
  for (const int index : indices) {
    outputs.push_back(self.program->outputs().at(index));
  }
  return {std::make_shared<const Program>(
      ValueOrThrow(WithOutputs(*self.program, outputs, AllOps())))};
}

// The users' names of variables that nothing reads.
std::vector<std::string> UnusedVariables(const PyProgram& self) {
  const std::vector<int> uses = CountUses(*self.program);
  std::vector<std::string> names;
  for (const Variable& variable : self.program->variables()) {
    if (uses[variable.value] == 0) names.push_back(variable.name);
  }
  return names;
}

absl::StatusOr<std::vector<Tensor>> CopiesOf(const Program& program,
                                             nb::list tensors) {
  std::vector<Tensor> copies;
  for (nb::handle item : tensors) {
    const std::string what =
        copies.size() < program.variables().size()
            ? absl::StrCat("variable \"",
                           program.variables()[copies.size()].name, "\"")
            : "a further variable";
    if (!THPVariable_Check(item.ptr())) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": wants a torch.Tensor"));
    }
    MICA_ASSIGN_OR_RETURN(const TensorView view,
                          ViewOfTensor(what, THPVariable_Unpack(item.ptr())));
    MICA_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(view));
    copies.push_back(std::move(copy));
  }
  return copies;
}

void WriteSaved(const std::string& path, const PyProgram& program,
                nb::list variables, const std::string& signature) {
  ThrowIfError(WriteSavedProgram(
      path, {.program = program.program,
             .variables = ValueOrThrow(CopiesOf(*program.program, variables)),
             .signature = signature}));
}

nb::tuple ReadSaved(const std::string& path) {
  const SavedProgram saved = ValueOrThrow(ReadSavedProgram(path, AllOps()));
  nb::list variables;
  for (const Tensor& tensor : saved.variables) {
    variables.append(nb::steal(THPVariable_Wrap(CopyToTorch(tensor))));
  }
  return nb::make_tuple(PyProgram{saved.program}, variables, saved.signature);
}

}  // namespace

void BindSaved(nb::module_& m) {
  m.attr("Program").attr("rename_variables") =
      nb::cpp_function(&Rename, nb::is_method(), nb::arg("names"));
  m.attr("Program").attr("keep_outputs") =
      nb::cpp_function(&KeepOutputs, nb::is_method(), nb::arg("indices"));
  m.attr("Program").attr("unused_variables") =
      nb::cpp_function(&UnusedVariables, nb::is_method());
  m.def("write_saved", &WriteSaved, nb::arg("path"), nb::arg("program"),
        nb::arg("variables"), nb::arg("signature"));
  m.def("read_saved", &ReadSaved, nb::arg("path"));
}

}  // namespace mica
