#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "python/bridge/bindings.h"
#include "python/bridge/status.h"
#include "python/capture/guards/dynamic_sizes.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/known/sum_parts.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/serve/stance.h"
#include "python/torch_side/recorder/module_scopes.h"
#include "python/torch_side/recorder/recorder.h"

namespace mica {
namespace {

namespace nb = nanobind;

// Once, after torch is imported.
void InitCapture(const std::string& torch_dir, const std::string& mica_dir) {
  if (!InitModuleScopes(torch_dir, mica_dir) || !InitPurity()) {
    throw nb::python_error();
  }
  ThrowIfError(Recorder::Install());
}

CallKind KindOf(const std::string& word) {
  if (word == "pure") return CallKind::kPure;
  if (word == "host") return CallKind::kHost;
  if (word == "number") return CallKind::kAsk;
  if (word == "ends_graph") return CallKind::kEndsGraph;
  throw nb::value_error("wants pure, host, number or ends_graph");
}

void AnnotateCallable(nb::handle callable, const std::string& kind,
                      std::vector<int> read, std::vector<int> changed,
                      std::string reason) {
  if (!Annotate(callable.ptr(), {.kind = KindOf(kind),
                                 .read = std::move(read),
                                 .changed = std::move(changed),
                                 .reason = std::move(reason)})) {
    throw nb::python_error();
  }
}

std::string NameOfStance() { return std::string(StanceName(CurrentStance())); }

void SetStanceByName(const std::string& word) {
  Stance stance = Stance::kDefault;
  if (!ParseStance(word, &stance)) {
    throw nb::value_error(("no stance \"" + word + "\"").c_str());
  }
  SetStance(stance);
}

void BindStance(nb::module_& m) {
  m.def("annotate", &AnnotateCallable, nb::arg("callable"), nb::arg("kind"),
        nb::arg("read"), nb::arg("changed"), nb::arg("reason"));
  m.def("drop_annotation",
        [](size_t id) { DropAnnotation(reinterpret_cast<const void*>(id)); });
  m.def("sum_parts", [](nb::handle items) {
    PyRef parts = SumParts(items.ptr());
    if (!parts) throw nb::python_error();
    return nb::steal(parts.release());
  });
  m.def("call_in_place", [](nb::handle function, nb::handle other) {
    CallInPlace(function.ptr(), other.ptr());
  });
  m.def("call_in_place_of",
        [](const std::string& module, const std::string& name,
           nb::handle other) { CallInPlaceOf(module, name, other.ptr()); });
  m.def("kind_of", [](nb::handle callable) {
    return static_cast<int>(KindOfBuiltin(callable.ptr()));
  });
  m.def("mark_dynamic",
        [](nb::handle tensor, int dim) { MarkDynamic(tensor.ptr(), dim); });
  m.def("drop_dynamic",
        [](size_t id) { DropDynamic(reinterpret_cast<const void*>(id)); });
  m.def("stance", &NameOfStance);
  m.def("set_stance", &SetStanceByName, nb::arg("stance"));
  m.def("set_checker",
        [](nb::handle checker) { SetChecker(PyRef::Share(checker.ptr())); });
  m.def("enter_disabled", &EnterDisabled);
  m.def("leave_disabled", &LeaveDisabled);
}

}  // namespace

void BindCapture(nb::module_& m) {
  m.def("init_capture", &InitCapture, nb::arg("torch_dir"),
        nb::arg("mica_dir"));
  BindStance(m);
  PyObject* type = MakeCompiledType();
  if (type == nullptr || CompiledFunctionType() == nullptr ||
      CompiledModuleType() == nullptr) {
    throw nb::python_error();
  }
  m.attr("Compiled") = nb::steal(type);
  m.attr("CompiledFunction") =
      nb::borrow(reinterpret_cast<PyObject*>(CompiledFunctionType()));
  m.attr("CompiledModule") =
      nb::borrow(reinterpret_cast<PyObject*>(CompiledModuleType()));
  m.def("make_compiled", [](const nb::args& args) {
    PyObject* made = MakeCompiledFromPython(args.ptr());
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
  });
  m.def("finish_module_class", [](nb::handle type) {
    if (!FinishModuleClass(type.ptr())) {
      throw nb::type_error("wants a class of compiled modules");
    }
  });
}

}  // namespace mica
