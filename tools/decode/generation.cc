#include "tools/decode/generation.h"

#include <chrono>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/tensor/npy.h"

namespace mica {
namespace {

// Seconds since the last call.
class Watch {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

absl::StatusOr<std::vector<int64_t>> ReadPrompt(
    const GenerationOptions& options) {
  if (options.tokens_path.empty()) {
    return ParseTokens("tokens", options.tokens);
  }
  MICA_ASSIGN_OR_RETURN(const Tensor file, ReadNpy(options.tokens_path));
  MICA_ASSIGN_OR_RETURN(const Tensor tokens, Tensor::CopyOf(file.view()));
  const TensorType& type = tokens.type();
  const bool is_row =
      type.rank() == 1 || (type.rank() == 2 && type.dims[0] == 1);
  if (type.dtype != DType::kI64 || !is_row || type.num_elements() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.tokens_path, ": wants tokens, i64[n] or i64[1,n], ", "got ",
        type.ToString()));
  }
  const auto* data = tokens.view().as<int64_t>();
  return std::vector<int64_t>(data, data + type.num_elements());
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseTokens(const std::string& flag,
                                                 const std::string& text) {
  std::vector<int64_t> tokens;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int64_t token = 0;
    if (!absl::SimpleAtoi(part, &token) || token < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", flag, ": wants numbers with commas between, got \"", part,
          "\""));
    }
    tokens.push_back(token);
  }
  return tokens;
}

absl::Status CheckOptions(const GenerationOptions& options) {
  if (options.step_folder.empty()) {
    return absl::InvalidArgumentError("wants --step=FOLDER");
  }
  if (options.tokens.empty() == options.tokens_path.empty()) {
    return absl::InvalidArgumentError(
        "wants either --tokens=5,3,17 or --tokens_file=FILE");
  }
  if (options.max_new_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_new_tokens: wants 1 or more, got ", options.max_new_tokens));
  }
  if (options.threads < 1 || options.threads > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads: wants 1 to 1024, got ", options.threads));
  }
  if (options.tokens_path.empty()) {
    MICA_ASSIGN_OR_RETURN(const auto tokens,
                          ParseTokens("tokens", options.tokens));
    if (tokens.empty()) {
      return absl::InvalidArgumentError("--tokens: wants a token at least");
    }
  }
  MICA_RETURN_IF_ERROR(ParseTokens("end", options.end_tokens).status());
  return CheckSampling(options.sampling);
}

absl::StatusOr<Generation> Generate(
    const GenerationOptions& options,
    const volatile std::sig_atomic_t& stop_signal) {
  MICA_RETURN_IF_ERROR(CheckOptions(options));
  MICA_ASSIGN_OR_RETURN(const auto ends,
                        ParseTokens("end", options.end_tokens));
  Watch watch;
  MICA_ASSIGN_OR_RETURN(const std::vector<int64_t> prompt, ReadPrompt(options));
  MICA_ASSIGN_OR_RETURN(
      const std::unique_ptr<Decoder> decoder,
      Decoder::Open({.step_folder = options.step_folder,
                     .prompt_folder = options.prompt_folder,
                     .num_threads = static_cast<int>(options.threads)}));
  Generation made{.prompt_tokens = static_cast<int64_t>(prompt.size()),
                  .is_frozen = decoder->is_frozen()};
  made.load_seconds = watch.Lap();
  Sampler sampler(options.sampling);
  MICA_ASSIGN_OR_RETURN(std::vector<float> logits, decoder->Take(prompt));
  MICA_ASSIGN_OR_RETURN(int64_t token, sampler.Pick(logits));
  made.prompt_seconds = watch.Lap();
  while (true) {
    made.tokens.push_back(token);
    made.is_stopped = stop_signal != 0;
    if (made.is_stopped || absl::c_linear_search(ends, token) ||
        static_cast<int64_t>(made.tokens.size()) >= options.max_new_tokens) {
      return made;
    }
    MICA_ASSIGN_OR_RETURN(logits, decoder->Take({token}));
    MICA_ASSIGN_OR_RETURN(token, sampler.Pick(logits));
    if (made.tokens.size() == 1) {
      made.first_step_seconds = watch.Lap();
    } else {
      made.step_seconds += watch.Lap();
      ++made.num_steps;
    }
  }
}

}  // namespace mica
