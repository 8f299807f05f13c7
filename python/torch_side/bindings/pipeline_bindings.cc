// Programs that run under a Schedule.

#include <ATen/core/Tensor.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/schedule/draw.h"
#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/plan_pipeline.h"
#include "analysis/schedule/simulate.h"
#include "executor/schedule/schedule_runner.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/schedule/schedule.h"
#include "framework/text/text.h"
#include "ops/all.h"
#include "python/bridge/bindings.h"
#include "python/bridge/schedules.h"
#include "python/bridge/status.h"
#include "python/process/plans.h"
#include "python/torch_side/opaque/opaque.h"
#include "python/torch_side/opaque/random_draws.h"
#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {
namespace {

namespace nb = nanobind;

// A Program cut and planned for a Schedule, and what runs it over the
// variables' present memory.
struct PyPipeline {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const PipelinePlan> plan;
  RandomDraws draws;
  std::vector<int> cpus;
  NamedViews bound;
  std::unique_ptr<ScheduleRunner> runner;
  RandomRun* random = nullptr;  // Of the run under way, if ops draw any.
};

absl::StatusOr<std::unique_ptr<PyPipeline>> MakePipelineOf(
    const PyProgram& program, const PySchedule& schedule,
    const std::vector<std::string>& scopes,
    const std::vector<std::string>& fetches, const std::vector<int>& cpus,
    int num_threads, bool fuse, bool frozen) {
  if (frozen) {
    return absl::UnimplementedError(
        "an Executor of frozen variables can't run a Schedule");
  }
  auto pipeline = std::make_unique<PyPipeline>();
  pipeline->program = program.program;
  if (!fetches.empty()) {
    MICA_ASSIGN_OR_RETURN(Program fetched,
                          WithFetches(*program.program, fetches, AllOps()));
    pipeline->program = std::make_shared<const Program>(std::move(fetched));
  }
  pipeline->cpus = cpus;
  const PlanOptions options{
      .num_threads = num_threads, .fuse = fuse, .prepare_aten = &PrepareAten};
  MICA_ASSIGN_OR_RETURN(
      pipeline->plan,
      PlanPipeline(*pipeline->program, schedule.schedule,
                   {.scopes = scopes, .keeps_random_order = true}, options,
                   AllOps(), *Plans()));
  MICA_ASSIGN_OR_RETURN(pipeline->draws,
                        FindRandomDraws(*pipeline->program, *pipeline->plan));
  return pipeline;
}

// What a run is fed, and tensors that were made for it.
struct Feeds {
  std::vector<NamedViews> of_batch;
  NamedViews of_update;
  std::vector<at::Tensor> made;
};

const PipelinePlan::Feed* FindFeed(absl::Span<const PipelinePlan::Feed> feeds,
                                   const std::string& name) {
  const auto it = absl::c_find_if(
      feeds, [&](const PipelinePlan::Feed& feed) { return feed.name == name; });
  return it == feeds.end() ? nullptr : &*it;
}

absl::StatusOr<at::Tensor> TensorOf(const std::string& what, nb::handle value) {
  if (THPVariable_Check(value.ptr())) return THPVariable_Unpack(value.ptr());
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": wants a torch.Tensor"));
}

// Its view as the type wants it: where only strides differ, of a copy.
absl::StatusOr<TensorView> ViewAs(const std::string& what,
                                  const at::Tensor& tensor,
                                  const TensorType& type, Feeds& feeds) {
  MICA_ASSIGN_OR_RETURN(TensorView view, ViewOfTensor(what, tensor));
  if (type.is_scalar || view.type == type || view.type.dims != type.dims ||
      view.type.dtype != type.dtype) {
    return view;
  }
  feeds.made.push_back(NewTensorOf(type));
  feeds.made.back().copy_(tensor.detach());
  return ViewOfTensor(what, feeds.made.back());
}

// Cuts a tensor of all micro-batches along its first dim.
absl::Status AddWhole(const std::string& name, const at::Tensor& tensor,
                      const PipelinePlan::Feed& feed, Feeds& feeds) {
  const std::string what = absl::StrCat("feed \"", name, "\"");
  const auto count = static_cast<int64_t>(feeds.of_batch.size());
  if (feed.type.is_scalar) {
    MICA_ASSIGN_OR_RETURN(const TensorView view, ViewOfTensor(what, tensor));
    for (NamedViews& views : feeds.of_batch) views[name] = view;
    return absl::OkStatus();
  }
  const int64_t rows = feed.type.rank() == 0 ? 0 : feed.type.dims[0];
  TensorType whole = feed.type;
  if (rows > 0) whole.dims[0] *= count;
  if (rows == 0 || tensor.dim() == 0 || tensor.size(0) != whole.dims[0]) {
    if (count > 1 || rows > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": wants ", count, " micro-batches of ", feed.type.ToString(),
          rows == 0 ? ", one by one"
                    : absl::StrCat(", ", whole.dims[0], " rows"),
          ", got ", c10::str(tensor.sizes())));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor part =
        rows == 0 ? tensor : tensor.narrow(0, i * rows, rows);
    MICA_ASSIGN_OR_RETURN(feeds.of_batch[i][name],
                          ViewAs(what, part, feed.type, feeds));
  }
  return absl::OkStatus();
}

absl::Status CheckName(const PyPipeline& self, const std::string& name) {
  const ValueId id = self.program->FindValue(name);
  if (id != kNoValue && self.program->value(id).kind == ValueKind::kInput) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "feed \"", name, "\" is no input of program @", self.program->name()));
}

// `feed` is a dict of tensors of all micro-batches, or a list of dicts.
absl::StatusOr<Feeds> FeedsOf(const PyPipeline& self, nb::handle feed) {
  const PipelinePlan& plan = *self.plan;
  Feeds feeds;
  const bool is_list = nb::isinstance<nb::list>(feed);
  const size_t count = is_list ? nb::len(feed) : 0;
  feeds.of_batch.resize(is_list ? count : plan.graph().num_micro_batches());
  const size_t num_dicts = is_list ? count : 1;
  for (size_t i = 0; i < num_dicts; ++i) {
    const nb::dict dict =
        nb::cast<nb::dict>(is_list ? nb::handle(feed[i]) : feed);
    for (auto [key, value] : dict) {
      const auto name = nb::cast<std::string>(key);
      const std::string what = absl::StrCat("feed \"", name, "\"");
      MICA_RETURN_IF_ERROR(CheckName(self, name));
      MICA_ASSIGN_OR_RETURN(const at::Tensor tensor, TensorOf(what, value));
      const auto* of_update = FindFeed(plan.update_feeds(), name);
      if (of_update != nullptr && i == 0) {
        MICA_ASSIGN_OR_RETURN(feeds.of_update[name],
                              ViewAs(what, tensor, of_update->type, feeds));
      }
      const auto* of_batch = FindFeed(plan.feeds(), name);
      if (of_batch == nullptr) continue;
      if (is_list) {
        MICA_ASSIGN_OR_RETURN(feeds.of_batch[i][name],
                              ViewAs(what, tensor, of_batch->type, feeds));
      } else {
        MICA_RETURN_IF_ERROR(AddWhole(name, tensor, *of_batch, feeds));
      }
    }
  }
  return feeds;
}

absl::StatusOr<NamedViews> ViewsOfVariables(nb::dict variables) {
  NamedViews views;
  for (auto [key, value] : variables) {
    const auto name = nb::cast<std::string>(key);
    const std::string what = absl::StrCat("variable \"", name, "\"");
    MICA_ASSIGN_OR_RETURN(const at::Tensor tensor, TensorOf(what, value));
    MICA_ASSIGN_OR_RETURN(views[name], ViewOfTensor(what, tensor));
  }
  return views;
}

bool IsSame(const NamedViews& a, const NamedViews& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const auto& left, const auto& right) {
                      return left.first == right.first &&
                             left.second.data == right.second.data &&
                             left.second.type == right.second.type;
                    });
}

using Results = absl::StatusOr<std::vector<std::vector<Tensor>>>;

// Runs without the GIL, which opaque ops may want; a signal ends the run.
Results RunAndWatch(ScheduleRunner& runner, const Feeds& feeds) {
  std::future<Results> future = std::async(std::launch::async, [&] {
    return runner.Run(feeds.of_batch, feeds.of_update);
  });
  bool is_interrupted = false;
  while (true) {
    {
      const nb::gil_scoped_release release;
      if (future.wait_for(std::chrono::milliseconds(100)) ==
          std::future_status::ready) {
        break;
      }
    }
    if (!is_interrupted && PyErr_CheckSignals() != 0) {
      is_interrupted = true;
      runner.Cancel();
    }
  }
  Results results = future.get();
  if (is_interrupted) throw nb::python_error();
  return results;
}

std::vector<std::vector<nb::object>> RunPipeline(PyPipeline& self,
                                                 nb::object feed,
                                                 nb::dict variables) {
  const NamedViews views = ValueOrThrow(ViewsOfVariables(variables));
  if (self.runner == nullptr || !IsSame(views, self.bound)) {
    self.runner = nullptr;
    self.runner = ValueOrThrow(ScheduleRunner::Create(
        self.plan, views,
        {.cpus = self.cpus, .around_job = [&self](const auto& job, auto run) {
           return self.random == nullptr ? run()
                                         : self.random->RunJob(job, run);
         }}));
    self.bound = views;
  }
  const Feeds feeds = ValueOrThrow(FeedsOf(self, feed));
  std::optional<RandomRun> random;
  self.random = nullptr;
  if (!self.draws.counts.empty()) {
    random.emplace(self.draws, self.plan->graph().num_micro_batches());
    self.random = &*random;
  }
  const auto results = ValueOrThrow(RunAndWatch(*self.runner, feeds));
  if (random.has_value()) random->Finish();
  std::vector<std::vector<nb::object>> tensors;
  for (const std::vector<Tensor>& batch : results) {
    tensors.emplace_back();
    for (const Tensor& result : batch) {
      tensors.back().push_back(
          nb::steal(THPVariable_Wrap(CopyToTorch(result))));
    }
  }
  return tensors;
}

// What draws Jobs, simulated or as they ran.
std::string TraceOf(const PyPipeline& self) {
  if (self.runner == nullptr) return "";
  return ToChromeTrace(self.plan->graph(), self.runner->timeline(),
                       /*unit_us=*/1);
}

}  // namespace

void BindPipeline(nb::module_& m) {
  nb::class_<PyPipeline>(m, "Pipeline")
      .def_static(
          "make",
          [](const PyProgram& program, const PySchedule& schedule,
             const std::vector<std::string>& scopes,
             const std::vector<std::string>& fetch_list,
             const std::vector<int>& cpus, int num_threads, bool fuse,
             bool frozen) {
            return ValueOrThrow(MakePipelineOf(program, schedule, scopes,
                                               fetch_list, cpus, num_threads,
                                               fuse, frozen));
          },
          nb::arg("program"), nb::arg("schedule"), nb::arg("scopes"),
          nb::arg("fetch_list"), nb::arg("cpus"), nb::arg("num_threads"),
          nb::arg("fuse"), nb::arg("frozen"))
      .def("run", &RunPipeline, nb::arg("feed"), nb::arg("variables"))
      .def("__str__", [](const PyPipeline& self) { return ToText(*self.plan); })
      .def("stage_texts",
           [](const PyPipeline& self) {
             std::vector<std::pair<std::string, std::string>> texts;
             for (const PipelinePlan::Stage& stage : self.plan->stages()) {
               texts.emplace_back(Describe(stage.jobs), ToText(*stage.program));
             }
             return texts;
           })
      .def("trace", &TraceOf);
}

}  // namespace mica
