#include <ATen/core/Tensor.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "executor/executor.h"
#include "framework/base/status.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "python/bridge/bindings.h"
#include "python/bridge/status.h"
#include "python/process/helpers.h"
#include "python/process/plans.h"
#include "python/process/progress.h"
#include "python/process/signals.h"
#include "python/torch_side/opaque/opaque.h"
#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {
namespace {

namespace nb = nanobind;

struct PyExecutor {
  std::unique_ptr<Executor> executor;
  bool is_running = false;
};

// `oracle` leaves the reference kernels alone, for the conformance suite.
void Init(PyExecutor* self, const std::string& place, int num_threads,
          int num_streams, bool queue, bool frozen, bool fuse, bool oracle) {
  if (num_threads < 1) {
    ThrowIfError(absl::InvalidArgumentError(
        "num_threads: wants 1 or more, got " + std::to_string(num_threads)));
  }
  if (num_streams < 1) {
    ThrowIfError(absl::InvalidArgumentError(
        "num_streams: wants 1 or more, got " + std::to_string(num_streams)));
  }
  PlanOptions options{.num_threads = num_threads,
                      .queue = queue,
                      .num_streams = num_streams,
                      .frozen = frozen,
                      .fuse = fuse,
                      .prepare_aten = oracle ? &PrepareOpaque : &PrepareAten};
  new (self) PyExecutor{ValueOrThrow(Executor::Create(
      ValueOrThrow(ParsePlace(place)), AllOps(),
      oracle ? ReferenceKernels() : AllKernels(), std::move(options),
      oracle ? nullptr : Plans(), &MakeJobOptions))};
}

NamedViews ViewsOf(nb::dict tensors, const char* what) {
  NamedViews views;
  for (auto [key, value] : tensors) {
    const std::string name = nb::cast<std::string>(key);
    if (!THPVariable_Check(value.ptr())) {
      ThrowIfError(absl::InvalidArgumentError(std::string(what) + " \"" + name +
                                              "\": wants a torch.Tensor"));
    }
    views[name] =
        ValueOrThrow(ViewOfTensor(std::string(what) + " \"" + name + "\"",
                                  THPVariable_Unpack(value.ptr())));
  }
  return views;
}

// Adds the memory of the dict's tensors to `kept`.
void Keep(nb::dict tensors, std::vector<c10::Storage>& kept) {
  for (auto [key, value] : tensors) {
    kept.push_back(THPVariable_Unpack(value.ptr()).storage());
  }
}

std::vector<nb::object> Run(PyExecutor& self, const PyProgram& program,
                            nb::dict feed, nb::dict variables,
                            const std::vector<std::string>& fetch_list) {
  if (self.is_running) {
    ThrowIfError(absl::FailedPreconditionError(
        "the Executor is in the midst of a run: what that run calls, such as a "
        "signal's handler, needs an Executor of its own"));
  }
  std::vector<c10::Storage> kept;
  const auto keep = [&] {
    Keep(feed, kept);
    Keep(variables, kept);
  };
  absl::StatusOr<std::vector<Tensor>> run;
  {
    self.is_running = true;
    const absl::Cleanup done = [&] { self.is_running = false; };
    std::optional<Progress> progress;
    if (self.executor->num_prepared() == 0) {
      progress.emplace(absl::StrCat("first run of ", program.program->name()));
      Progress::SetPhase("planning, packing and running");
    }
    SignalScope signals(keep);
    run = self.executor->Run(program.program, ViewsOf(feed, "feed"),
                             ViewsOf(variables, "variable"), fetch_list);
    if (!run.ok() && signals.Raise()) throw nb::python_error();
  }
  const std::vector<Tensor> results = ValueOrThrow(std::move(run));
  std::vector<nb::object> tensors;
  for (const Tensor& result : results) {
    tensors.push_back(nb::steal(THPVariable_Wrap(CopyToTorch(result))));
  }
  return tensors;
}

std::string PlanText(PyExecutor& self, const PyProgram& program, nb::dict feed,
                     const std::vector<std::string>& fetch_list) {
  return ValueOrThrow(self.executor->PlanFor(program.program,
                                             ViewsOf(feed, "feed"), fetch_list))
      ->ToText();
}

}  // namespace

void BindExecutor(nb::module_& m) {
  nb::class_<PyExecutor>(m, "Executor")
      .def("__init__", &Init, nb::arg("place"), nb::arg("num_threads"),
           nb::arg("num_streams"), nb::arg("queue"), nb::arg("frozen"),
           nb::arg("fuse"), nb::arg("oracle") = false)
      .def("run", &Run, nb::arg("program"), nb::arg("feed"),
           nb::arg("variables"), nb::arg("fetch_list"))
      .def("plan_text", &PlanText, nb::arg("program"), nb::arg("feed"),
           nb::arg("fetch_list"));
}

}  // namespace mica
