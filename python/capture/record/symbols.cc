#include "python/capture/record/symbols.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/lower.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/rewrite.h"
#include "analysis/sizes/size_walk.h"
#include "analysis/sizes/symbolic_program.h"
#include "framework/base/status.h"
#include "ops/all.h"
#include "python/capture/record/record_sizes.h"

namespace mica {
namespace {

// How the inputs of a template's tape lie at other sizes.
std::vector<TensorSizes> InputsAt(const RecordSizes& sizes, int num_inputs,
                                  absl::Span<const NamedSize> open,
                                  absl::Span<const int64_t> at) {
  const Tape& tape = sizes.made().tape();
  std::vector<TensorSizes> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    const TapeTensor& own = tape.tensors[tape.inputs[i]];
    TensorSizes input{.sizes = own.sizes, .strides = own.strides};
    for (size_t k = 0; k < open.size(); ++k) {
      for (const auto& [number, dim] : open[k].dims) {
        if (number == i) input.sizes[dim] = at[k];
      }
    }
    if (input.sizes != own.sizes) {
      input.strides =
          DenseStrides(input.sizes, StrideOrder(own.sizes, own.strides));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Has a Program return what a result is: all of a value, or a copy of the part
// of it that the result is a view of.
absl::StatusOr<ValueId> AddResult(const Program& from,
                                  const LoweredResult& result,
                                  Rewriter& rewriter) {
  if (result.moved >= 0 || result.is_conj || result.is_neg) {
    return Unlike("a result is a view that goes by numbers");
  }
  ValueId base = kNoValue;
  switch (result.source) {
    case LoweredResult::Source::kOutput:
      base = from.outputs()[result.index];
      break;
    case LoweredResult::Source::kInput:
      base = from.inputs()[result.index];
      break;
    case LoweredResult::Source::kState:
      base = from.variables()[result.index].value;
      break;
  }
  for (const Update& update : from.updates()) {
    if (update.target != base) continue;
    if (from.type(base).EffectiveStrides() !=
        from.type(update.value).EffectiveStrides()) {
      return Unlike("a result is a view of what the program writes");
    }
    base = update.value;
    break;
  }
  const TensorType& type = from.type(base);
  if (type.dtype != result.dtype) {
    return Unlike("a result shows memory as another type");
  }
  const bool is_whole =
      result.offset == 0 && absl::c_equal(result.sizes, type.dims) &&
      absl::c_equal(result.strides, type.EffectiveStrides()) &&
      result.source == LoweredResult::Source::kOutput;
  if (is_whole) return rewriter.NewId(base);
  MICA_ASSIGN_OR_RETURN(
      const ValueId view,
      rewriter.builder().Add("aten.as_strided",
                             {ValueRef{rewriter.NewId(base)}, result.sizes,
                              result.strides, result.offset}));
  return rewriter.builder().Add("aten.clone", {ValueRef{view}});
}

// What is exported of a lowered tape.
absl::StatusOr<Program> ExportedOf(const LoweredTape& lowered,
                                   absl::Span<const int> results,
                                   int num_numbers) {
  const Program& from = lowered.program;
  Rewriter rewriter(from, AllOps());
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : from.ops()) MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
  std::vector<ValueId> outputs;
  for (const int result : results) {
    MICA_ASSIGN_OR_RETURN(outputs.emplace_back(),
                          AddResult(from, lowered.results[result], rewriter));
  }
  for (int i = 0; i < num_numbers; ++i) {
    outputs.push_back(rewriter.NewId(from.outputs()[lowered.host_results[i]]));
  }
  MICA_ASSIGN_OR_RETURN(const Program all, rewriter.Finish());
  return WithOutputs(all, outputs, AllOps());
}

// The bytes of constants that are variables of the Program.
std::vector<std::shared_ptr<const std::string>> LargeConstants(
    const Tape& tape, const LoweredTape& lowered) {
  std::vector<std::shared_ptr<const std::string>> all;
  for (const TapeTensorId id : lowered.large_constants) {
    all.push_back(tape.tensors[id].bytes);
  }
  return all;
}

bool IsOpen(const RecordSizes& sizes, int num_inputs, int input, int dim) {
  return input >= 0 && input < num_inputs && sizes.made().IsOpen(input) &&
         absl::c_linear_search(sizes.made().OpenDims(input), dim);
}

}  // namespace

absl::StatusOr<Program> SymbolicProgram(const Record& record,
                                        absl::Span<const NamedSize> open,
                                        absl::Span<const int> results,
                                        int num_numbers) {
  const RecordSizes* sizes = record.sizes();
  if (sizes == nullptr) return Unlike("its sizes are fixed");
  const int num_inputs = sizes->num_inputs();
  std::vector<std::string> names;
  std::vector<int64_t> base, least, greatest;
  for (const NamedSize& size : open) {
    for (const auto& [input, dim] : size.dims) {
      if (IsOpen(*sizes, num_inputs, input, dim)) continue;
      return Unlike(absl::StrCat("size ", size.name, " is fixed"));
    }
    const Tape& tape = sizes->made().tape();
    const auto& [input, dim] = size.dims[0];
    names.push_back(size.name);
    base.push_back(tape.tensors[tape.inputs[input]].sizes[dim]);
    least.push_back(size.least);
    greatest.push_back(size.greatest);
  }
  std::vector<SizedProgram> samples;
  std::vector<std::shared_ptr<const std::string>> constants;
  absl::Status failure;
  for (const std::vector<int64_t>& at : SizesToSample(base, least, greatest)) {
    const auto inputs = InputsAt(*sizes, num_inputs, open, at);
    Tape tape;
    const auto lowered = sizes->LowerAt(inputs, &tape);
    if (!lowered.ok()) {
      failure = lowered.status();
      continue;
    }
    const auto own = LargeConstants(tape, *lowered);
    if (samples.empty()) constants = own;
    const bool is_same = std::equal(
        own.begin(), own.end(), constants.begin(), constants.end(),
        [](const auto& a, const auto& b) { return a == b || *a == *b; });
    if (!is_same) return Unlike("a large constant goes by sizes");
    MICA_ASSIGN_OR_RETURN(Program program,
                          ExportedOf(*lowered, results, num_numbers));
    MICA_ASSIGN_OR_RETURN(auto conditions, sizes->ConditionsAt(inputs));
    for (size_t k = 0; k < open.size(); ++k) {
      conditions.push_back({at[k], 1, ">=", open[k].least});
      if (open[k].greatest == NamedSize().greatest) continue;
      conditions.push_back({at[k], 1, "<=", open[k].greatest});
    }
    samples.push_back({at, std::move(program), std::move(conditions)});
  }
  if (samples.empty() && !failure.ok()) return failure;
  MICA_ASSIGN_OR_RETURN(Program made, MakeSymbolic(names, samples, AllOps()));
  // The operators' own rules have the last word.
  for (const SizedProgram* sample : {&samples.front(), &samples.back()}) {
    absl::flat_hash_map<std::string, int64_t> own;
    for (size_t k = 0; k < names.size(); ++k) own[names[k]] = sample->sizes[k];
    MICA_RETURN_IF_ERROR(Specialise(made, own, AllOps()).status());
  }
  return made;
}

}  // namespace mica
