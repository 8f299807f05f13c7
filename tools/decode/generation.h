// Goes on with a text of tokens.

#ifndef MICA_TOOLS_DECODE_GENERATION_H_
#define MICA_TOOLS_DECODE_GENERATION_H_

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/decode/decoder.h"
#include "tools/decode/sampling.h"

namespace mica {

struct GenerationOptions {
  std::string step_folder;    // As DecoderOptions has them.
  std::string prompt_folder;  // May be empty.
  std::string tokens;         // The prompt: "5,3,17". Empty: of `tokens_path`,
  std::string tokens_path;    // an npy file of i64[n] or i64[1,n].
  int64_t max_new_tokens = 32;
  std::string end_tokens;  // "50256": it ends with one of these.
  SamplingOptions sampling;
  int64_t threads = 1;
};

struct Generation {
  int64_t prompt_tokens = 0;
  std::vector<int64_t> tokens;  // New ones, an end token included.
  bool is_stopped = false;      // By a signal.
  bool is_frozen = false;       // Decoder::is_frozen().
  double load_seconds = 0;      // Reading files.
  // Until the first new token is known; planning and packing are part of it.
  double prompt_seconds = 0;
  double first_step_seconds = 0;  // The same of the step's first run.
  double step_seconds = 0;        // Of all steps behind it.
  int64_t num_steps = 0;          // So many.
};

// InvalidArgument for options that can't be meant.
absl::Status CheckOptions(const GenerationOptions& options);

// Ends before the next token once `stop_signal` isn't 0. Names the file, flag
// or op in an error.
absl::StatusOr<Generation> Generate(
    const GenerationOptions& options,
    const volatile std::sig_atomic_t& stop_signal);

// "5,3,17" as numbers. InvalidArgument, naming the flag, for anything else.
absl::StatusOr<std::vector<int64_t>> ParseTokens(const std::string& flag,
                                                 const std::string& text);

}  // namespace mica

#endif  // MICA_TOOLS_DECODE_GENERATION_H_
