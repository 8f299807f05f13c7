#include "tools/decode/decoder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/plan/default_plans.h"
#include "framework/base/status.h"
#include "framework/saved/saved_program.h"
#include "kernels/all.h"
#include "kernels/reference/element.h"
#include "ops/all.h"

namespace mica {
namespace {

std::set<std::string> VariablesOf(const Program& program, bool are_written) {
  std::set<std::string> names;
  for (const Variable& variable : program.variables()) {
    const bool is_written = absl::c_any_of(
        program.updates(),
        [&](const Update& update) { return update.target == variable.value; });
    if (is_written == are_written) names.insert(variable.name);
  }
  return names;
}

// Whether one Program writes what the other only reads.
bool WritesFor(const Program& writer, const Program& reader) {
  const std::set<std::string> read = VariablesOf(reader, false);
  return absl::c_any_of(
      VariablesOf(writer, true),
      [&](const std::string& name) { return read.contains(name); });
}

// The last row of [..., words] as floats.
absl::StatusOr<std::vector<float>> LastRow(const std::string& folder,
                                           const std::vector<Tensor>& results) {
  if (results.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": the Program returns no logits"));
  }
  const TensorType& type = results[0].type();
  if (type.rank() == 0 || type.is_scalar || !IsFloating(type.dtype) ||
      type.num_elements() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": wants logits, floats of [..., words], as the ",
                     "first result, got ", type.ToString()));
  }
  MICA_ASSIGN_OR_RETURN(const Tensor row_major,
                        Tensor::CopyOf(results[0].view()));
  const int64_t num_words = type.dims.back();
  const int64_t first = type.num_elements() - num_words;
  std::vector<float> logits(static_cast<size_t>(num_words));
  for (int64_t i = 0; i < num_words; ++i) {
    logits[i] = LoadElement<float>(row_major.data(), type.dtype, first + i);
  }
  return logits;
}

}  // namespace

absl::Status Decoder::FindInputs(Part& part) const {
  const Program& program = *part.program;
  const auto wrong = [&](ValueId id) {
    return absl::InvalidArgumentError(absl::StrCat(
        part.folder, ": input \"", program.value(id).name, "\", ",
        program.type(id).ToString(),
        ": wants tokens, i64[1,n], or their places, i64[], i64[n] or "
        "i64[1,n]"));
  };
  for (const ValueId id : program.inputs()) {
    const TensorType& type = program.type(id);
    if (type.dtype != DType::kI64 || type.is_scalar || type.rank() > 2 ||
        (type.rank() == 2 && type.dims[0] != 1)) {
      return wrong(id);
    }
    if (part.tokens == kNoValue && type.rank() == 2) {
      part.tokens = id;
    } else {
      part.places.push_back(id);
    }
  }
  if (part.tokens == kNoValue) {
    return absl::InvalidArgumentError(absl::StrCat(
        part.folder, ": no input takes tokens: wants one of i64[1,n]"));
  }
  const Dim count = program.type(part.tokens).dims[1];
  part.count = IsSymbol(count) ? 0 : count;
  for (const ValueId id : part.places) {
    const TensorType& type = program.type(id);
    if (type.rank() > 0 ? type.dims.back() != count : count != 1) {
      return wrong(id);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Decoder::Part> Decoder::Read(const std::string& folder) {
  MICA_ASSIGN_OR_RETURN(SavedProgram saved, ReadSavedProgram(folder, AllOps()));
  Part part{.folder = folder, .program = saved.program};
  for (size_t i = 0; i < saved.variables.size(); ++i) {
    const std::string& name = saved.program->variables()[i].name;
    const auto [it, is_new] =
        variables_.try_emplace(name, std::move(saved.variables[i]));
    if (is_new) {
      views_[name] = it->second.view();
      continue;
    }
    const TensorType& wanted =
        saved.program->type(saved.program->variables()[i].value);
    if (it->second.type() == wanted) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": variable \"", name, "\" is ", wanted.ToString(),
                     ", in ", step_.folder, " ", it->second.type().ToString()));
  }
  MICA_RETURN_IF_ERROR(FindInputs(part));
  return part;
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Open(
    const DecoderOptions& options) {
  std::unique_ptr<Decoder> decoder(new Decoder);
  MICA_ASSIGN_OR_RETURN(decoder->step_, decoder->Read(options.step_folder));
  if (decoder->step_.count != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.step_folder, ": wants a Program that takes one token, got ",
        decoder->step_.program->type(decoder->step_.tokens).ToString()));
  }
  if (!options.prompt_folder.empty()) {
    MICA_ASSIGN_OR_RETURN(decoder->prompt_,
                          decoder->Read(options.prompt_folder));
    const Program& step = *decoder->step_.program;
    const Program& prompt = *decoder->prompt_.program;
    // What is packed for the one that reads it is what it was then.
    decoder->is_frozen_ = !WritesFor(step, prompt) && !WritesFor(prompt, step);
  }
  MICA_ASSIGN_OR_RETURN(
      decoder->executor_,
      Executor::Create(Place(), AllOps(), AllKernels(),
                       {.num_threads = options.num_threads,
                        .frozen = decoder->is_frozen_,
                        .write_parts = true},
                       MakeDefaultPlans(AllOps(), AllKernels())));
  return decoder;
}

absl::StatusOr<std::vector<float>> Decoder::Run(
    const Part& part, absl::Span<const int64_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<int64_t> places(tokens.size());
  for (int64_t i = 0; i < count; ++i) places[i] = num_tokens_ + i;
  std::vector<int64_t> fed(tokens.begin(), tokens.end());
  NamedViews feeds;
  const auto feed = [&](ValueId id, std::vector<int64_t>& from) {
    TensorType type = part.program->type(id);
    if (type.rank() > 0) type.dims.back() = count;
    feeds[part.program->value(id).name] = {from.data(), type};
  };
  feed(part.tokens, fed);
  for (const ValueId id : part.places) feed(id, places);
  auto results = executor_->Run(part.program, feeds, views_, /*fetches=*/{});
  if (!results.ok()) {
    return Annotate(results.status(),
                    absl::StrCat(part.folder, ", token ", num_tokens_));
  }
  num_tokens_ += count;
  return LastRow(part.folder, *results);
}

absl::StatusOr<std::vector<float>> Decoder::Take(
    absl::Span<const int64_t> tokens) {
  if (tokens.empty()) return absl::InvalidArgumentError("there is no token");
  std::vector<float> logits;
  while (!tokens.empty()) {
    const auto left = static_cast<int64_t>(tokens.size());
    const bool takes_any = prompt_.count == 0 && left > 1;
    const bool fits =
        prompt_.program != nullptr &&
        (takes_any || (prompt_.count > 0 && prompt_.count <= left));
    const int64_t count = !fits ? 1 : takes_any ? left : prompt_.count;
    MICA_ASSIGN_OR_RETURN(
        logits, Run(fits ? prompt_ : step_, tokens.subspan(0, count)));
    tokens.remove_prefix(count);
  }
  return logits;
}

}  // namespace mica
