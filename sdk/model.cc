// The C API's models and their runs.

#include <algorithm>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/job/helpers.h"
#include "framework/base/status.h"
#include "framework/ir/updates.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "sdk/handles.h"

namespace mica {
namespace {

ModelValue Describe(const std::string& name, const TensorType& type) {
  ModelValue value{.name = name, .type = type};
  for (const Dim dim : type.dims) {
    value.dims.push_back(IsSymbol(dim) ? -1 : dim);
    value.names.push_back(IsSymbol(dim) ? DimToString(dim) : "");
  }
  for (const std::string& symbol : value.names) {
    value.symbols.push_back(symbol.empty() ? nullptr : symbol.c_str());
  }
  return value;
}

absl::StatusOr<mica_options> OptionsOf(const mica_options* given) {
  mica_options options = MICA_OPTIONS_INIT;
  if (given == nullptr) return options;
  // What a caller built with another header doesn't know of has its default.
  constexpr size_t kSmallest = sizeof(size_t);
  if (given->struct_size < kSmallest || given->struct_size > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.struct_size: wants sizeof(mica_options), got ",
                     given->struct_size));
  }
  std::memcpy(&options, given, std::min(given->struct_size, sizeof(options)));
  if (options.threads < 1 || options.threads > 1024) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.threads: wants 1 to 1024, got ", options.threads));
  }
  if (options.max_prepared < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.max_prepared: wants 0 or more, got ", options.max_prepared));
  }
  return options;
}

absl::Status Load(const char* folder, const mica_options* given,
                  mica_model** model) {
  if (folder == nullptr) return NullArgument("folder");
  if (model == nullptr) return NullArgument("model");
  MICA_ASSIGN_OR_RETURN(const mica_options options, OptionsOf(given));
  auto made = std::make_unique<mica_model>();
  MICA_ASSIGN_OR_RETURN(
      made->saved,
      ReadSavedProgram(
          folder, AllOps(),
          options.map_weights != 0 ? FileMemory::kMapped : FileMemory::kOwn,
          options.weights == nullptr ? "" : options.weights));
  const Program& program = *made->saved.program;
  made->is_frozen = options.frozen != 0;
  const ValueId updated = FirstUpdatedVariable(program);
  if (made->is_frozen && updated != kNoValue) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": frozen, but the program updates %",
                     program.value(updated).name));
  }
  for (const ValueId id : program.inputs()) {
    made->inputs.push_back(Describe(program.value(id).name, program.type(id)));
  }
  for (const ValueId id : program.outputs()) {
    made->outputs.push_back(Describe(program.value(id).name, program.type(id)));
  }
  for (size_t i = 0; i < program.variables().size(); ++i) {
    const Variable& variable = program.variables()[i];
    made->variables.push_back(
        Describe(variable.name, program.type(variable.value)));
    made->views[variable.name] = made->saved.variables[i].view();
  }
  const PlanOptions plan = {.num_threads = options.threads,
                            .queue = options.queue != 0,
                            .frozen = made->is_frozen};
  MakeJobOptionsFn make_job_options;
  if (plan.has_queue()) {
    make_job_options = [helpers = std::make_shared<Helpers>(options.threads -
                                                            1)](const Plan&) {
      return JobOptions{.helpers = helpers};
    };
  }
  const ExecutorLimits limits = {
      .max_prepared = options.max_prepared == 0 ? ExecutorLimits().max_prepared
                                                : options.max_prepared,
      .max_runs = options.max_runs,
      .max_arena_bytes = options.max_arena_bytes};
  MICA_ASSIGN_OR_RETURN(
      made->executor,
      Executor::Create(Place(), AllOps(), AllKernels(), plan,
                       /*plans=*/nullptr, std::move(make_job_options), limits));
  *model = made.release();
  return absl::OkStatus();
}

absl::Status Show(const std::vector<ModelValue>& values, const char* what,
                  int32_t index, mica_value* shown) {
  if (shown == nullptr) return NullArgument("value");
  if (index < 0 || static_cast<size_t>(index) >= values.size()) {
    return absl::OutOfRangeError(
        absl::StrCat(what, " ", index, " of ", values.size()));
  }
  const ModelValue& value = values[index];
  *shown = {.name = value.name.c_str(),
            .dtype = static_cast<mica_dtype>(value.type.dtype),
            .rank = static_cast<int32_t>(value.dims.size()),
            .dims = value.dims.data(),
            .symbols = value.symbols.data()};
  return absl::OkStatus();
}

absl::StatusOr<TensorView> ViewOf(const std::string& name,
                                  const mica_view& view, bool has_data) {
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\": ", parts...));
  };
  if (mica_dtype_bytes(view.dtype) == 0) {
    return refuse("no dtype has the number ", static_cast<int>(view.dtype));
  }
  if (view.rank < 0 || view.rank > 64) {
    return refuse("wants a rank of 0 to 64, got ", view.rank);
  }
  if (view.rank > 0 && view.dims == nullptr) return refuse("its dims are null");
  TensorView made = {.data = view.data};
  made.type.dtype = static_cast<DType>(view.dtype);
  made.type.dims.assign(view.dims, view.dims + view.rank);
  if (!HasLegalSize(made.type)) {
    return refuse("its dims are no legal size: ", made.type.ToString());
  }
  if (view.strides != nullptr) {
    made.type.strides.assign(view.strides, view.strides + view.rank);
    for (const Dim stride : made.type.strides) {
      if (stride < 0) return refuse("wants strides of 0 or more");
    }
  }
  if (has_data && view.data == nullptr && made.type.num_elements() > 0) {
    return refuse("its data is null");
  }
  return made;
}

absl::StatusOr<NamedViews> FeedsOf(const mica_model& model,
                                   const mica_view* inputs, bool has_data) {
  if (inputs == nullptr && !model.inputs.empty()) return NullArgument("inputs");
  NamedViews feeds;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const ModelValue& input = model.inputs[i];
    MICA_ASSIGN_OR_RETURN(TensorView view,
                          ViewOf(input.name, inputs[i], has_data));
    view.type.is_scalar = input.type.is_scalar;
    feeds[input.name] = std::move(view);
  }
  return feeds;
}

std::unique_ptr<mica_tensor> Wrap(Tensor tensor) {
  auto made = std::make_unique<mica_tensor>();
  const TensorType& type = tensor.type();
  made->dims.assign(type.dims.begin(), type.dims.end());
  const Dims strides = type.EffectiveStrides();
  made->strides.assign(strides.begin(), strides.end());
  made->tensor = std::move(tensor);
  return made;
}

absl::Status Run(mica_model* model, const mica_view* inputs,
                 const char* const* fetches, int32_t num_fetches,
                 mica_cancel* cancel, mica_tensor** results) {
  if (model == nullptr) return NullArgument("model");
  if (num_fetches < 0 || (num_fetches > 0 && fetches == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("fetches: wants as many names as num_fetches, ",
                     num_fetches, ", says"));
  }
  std::vector<std::string> names;
  for (int32_t i = 0; i < num_fetches; ++i) {
    if (fetches[i] == nullptr) return NullArgument("a fetch's name");
    names.emplace_back(fetches[i]);
  }
  if (results == nullptr && (num_fetches > 0 || !model->outputs.empty())) {
    return NullArgument("results");
  }
  MICA_ASSIGN_OR_RETURN(const NamedViews feeds,
                        FeedsOf(*model, inputs, /*has_data=*/true));
  model->was_run = true;
  MICA_ASSIGN_OR_RETURN(
      std::vector<Tensor> tensors,
      model->executor->Run(model->saved.program, feeds, model->views, names,
                           cancel == nullptr ? nullptr : &cancel->handle));
  std::vector<std::unique_ptr<mica_tensor>> wrapped;
  for (Tensor& tensor : tensors) wrapped.push_back(Wrap(std::move(tensor)));
  for (size_t i = 0; i < wrapped.size(); ++i) results[i] = wrapped[i].release();
  return absl::OkStatus();
}

absl::Status Prepare(mica_model* model, const mica_view* inputs) {
  if (model == nullptr) return NullArgument("model");
  MICA_ASSIGN_OR_RETURN(const NamedViews feeds,
                        FeedsOf(*model, inputs, /*has_data=*/false));
  return model->executor->PlanFor(model->saved.program, feeds, {}).status();
}

// The variable's name; an error if there is none of that number, or if it can't
// be changed any more.
absl::StatusOr<std::string> NameOfVariable(mica_model* model, int32_t index) {
  if (model == nullptr) return NullArgument("model");
  mica_value value;
  MICA_RETURN_IF_ERROR(Show(model->variables, "variable", index, &value));
  if (model->is_frozen && model->was_run) {
    return absl::FailedPreconditionError(
        absl::StrCat("variable \"", value.name,
                     "\": the model is frozen and has run: its weights may be "
                     "packed already"));
  }
  return value.name;
}

absl::Status ViewVariable(mica_model* model, int32_t index, mica_view* view) {
  if (view == nullptr) return NullArgument("view");
  MICA_ASSIGN_OR_RETURN(const std::string name, NameOfVariable(model, index));
  const ModelValue& variable = model->variables[index];
  *view = {.data = model->views[name].data,
           .dtype = static_cast<mica_dtype>(variable.type.dtype),
           .rank = static_cast<int32_t>(variable.dims.size()),
           .dims = variable.dims.data(),
           .strides = nullptr};
  return absl::OkStatus();
}

absl::Status BindVariable(mica_model* model, int32_t index,
                          const mica_view* view) {
  if (view == nullptr) return NullArgument("view");
  MICA_ASSIGN_OR_RETURN(const std::string name, NameOfVariable(model, index));
  MICA_ASSIGN_OR_RETURN(const TensorView bound,
                        ViewOf(name, *view, /*has_data=*/true));
  MICA_RETURN_IF_ERROR(CheckFed(absl::StrCat("variable \"", name, "\""),
                                model->variables[index].type, bound.type));
  model->views[name] = bound;
  return absl::OkStatus();
}

absl::Status ReadStats(const mica_model* model, mica_stats* stats) {
  if (model == nullptr) return NullArgument("model");
  if (stats == nullptr) return NullArgument("stats");
  const size_t size = stats->struct_size;
  if (size < sizeof(size_t) || size > 4096) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stats.struct_size: wants sizeof(mica_stats), got ", size));
  }
  const ExecutorStats now = model->executor->stats();
  const mica_stats all = {.struct_size = size,
                          .runs = now.runs,
                          .failures = now.failures,
                          .run_nanoseconds = now.run_nanoseconds,
                          .wait_nanoseconds = now.wait_nanoseconds,
                          .running = now.running,
                          .prepared = now.prepared,
                          .jobs = now.jobs,
                          .arena_bytes = now.arena_bytes};
  std::memcpy(stats, &all, std::min(size, sizeof(all)));
  return absl::OkStatus();
}

int32_t CountOf(const std::vector<ModelValue>& values) {
  return static_cast<int32_t>(values.size());
}

}  // namespace
}  // namespace mica

extern "C" {

mica_error* mica_model_load(const char* folder, const mica_options* options,
                            mica_model** model) {
  return mica::Guarded([&] { return mica::Load(folder, options, model); });
}
void mica_model_free(mica_model* model) { delete model; }

int32_t mica_model_num_inputs(const mica_model* model) {
  return model == nullptr ? 0 : mica::CountOf(model->inputs);
}
int32_t mica_model_num_outputs(const mica_model* model) {
  return model == nullptr ? 0 : mica::CountOf(model->outputs);
}
int32_t mica_model_num_variables(const mica_model* model) {
  return model == nullptr ? 0 : mica::CountOf(model->variables);
}

mica_error* mica_model_input(const mica_model* model, int32_t index,
                             mica_value* value) {
  return mica::Guarded([&] {
    return model == nullptr ? mica::NullArgument("model")
                            : mica::Show(model->inputs, "input", index, value);
  });
}
mica_error* mica_model_output(const mica_model* model, int32_t index,
                              mica_value* value) {
  return mica::Guarded([&] {
    return model == nullptr
               ? mica::NullArgument("model")
               : mica::Show(model->outputs, "output", index, value);
  });
}
mica_error* mica_model_variable(const mica_model* model, int32_t index,
                                mica_value* value) {
  return mica::Guarded([&] {
    return model == nullptr
               ? mica::NullArgument("model")
               : mica::Show(model->variables, "variable", index, value);
  });
}

mica_error* mica_model_variable_view(mica_model* model, int32_t index,
                                     mica_view* view) {
  return mica::Guarded([&] { return mica::ViewVariable(model, index, view); });
}
mica_error* mica_model_bind_variable(mica_model* model, int32_t index,
                                     const mica_view* view) {
  return mica::Guarded([&] { return mica::BindVariable(model, index, view); });
}

mica_error* mica_model_run(mica_model* model, const mica_view* inputs,
                           const char* const* fetches, int32_t num_fetches,
                           mica_cancel* cancel, mica_tensor** results) {
  return mica::Guarded([&] {
    return mica::Run(model, inputs, fetches, num_fetches, cancel, results);
  });
}
mica_error* mica_model_prepare(mica_model* model, const mica_view* inputs) {
  return mica::Guarded([&] { return mica::Prepare(model, inputs); });
}

mica_error* mica_model_stats(const mica_model* model, mica_stats* stats) {
  return mica::Guarded([&] { return mica::ReadStats(model, stats); });
}

}  // extern "C"
