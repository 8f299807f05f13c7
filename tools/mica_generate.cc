// Generates: an exported decoder goes on with a text of tokens. No Python, no
// torch.

#include <csignal>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "nlohmann/json.hpp"
#include "tools/decode/generation.h"
#include "tools/flags.h"
#include "tools/signals.h"

DEFINE_string(step, "",
              "folder of the exported Program that takes one token: "
              "docs/serving.md says which");
DEFINE_string(prompt, "",
              "folder of one that takes several tokens at a time; shares the "
              "step's variables by name");
DEFINE_string(tokens, "", "the text to go on with: 5,3,17");
DEFINE_string(tokens_file, "", "npy file with it, i64[n] or i64[1,n]");
DEFINE_int64(max_new_tokens, 32, "how many tokens are generated at most");
DEFINE_string(end, "", "tokens that end the text, with commas between");
DEFINE_double(temperature, 0, "of sampling; 0 takes the most likely token");
DEFINE_int64(top_k, 0, "samples of the so many most likely tokens; 0: of all");
DEFINE_double(top_p, 1,
              "samples of the fewest most likely tokens that are so probable "
              "together");
DEFINE_uint64(seed, 0, "decides what is sampled");
DEFINE_int64(threads, 1, "threads for one step");
DEFINE_bool(json, false, "prints one JSON object: tokens and times");

namespace mica {
namespace {

void Print(const Generation& made) {
  const double rate = made.num_steps > 0 ? static_cast<double>(made.num_steps) /
                                               made.step_seconds
                                         : 0;
  if (FLAGS_json) {
    const nlohmann::ordered_json line = {
        {"tokens", made.tokens},
        {"prompt_tokens", made.prompt_tokens},
        {"load_s", made.load_seconds},
        {"prompt_s", made.prompt_seconds},
        {"first_step_s", made.first_step_seconds},
        {"steps", made.num_steps},
        {"tokens_per_s", rate},
        {"packed", made.is_frozen},
        {"stopped", made.is_stopped}};
    std::printf("%s\n", line.dump().c_str());
    return;
  }
  std::printf("%s\n", absl::StrJoin(made.tokens, ",").c_str());
  std::fprintf(stderr, "prompt of %lld: %.1f ms; %.1f tokens/s\n",
               static_cast<long long>(made.prompt_tokens),
               made.prompt_seconds * 1e3, rate);
}

int Main(int argc, char** argv) {
  absl::Status status = ParseFlags(argc, argv, "mica_generate.cc");
  const GenerationOptions options = {
      .step_folder = FLAGS_step,
      .prompt_folder = FLAGS_prompt,
      .tokens = FLAGS_tokens,
      .tokens_path = FLAGS_tokens_file,
      .max_new_tokens = FLAGS_max_new_tokens,
      .end_tokens = FLAGS_end,
      .sampling = {.temperature = FLAGS_temperature,
                   .top_k = FLAGS_top_k,
                   .top_p = FLAGS_top_p,
                   .seed = FLAGS_seed},
      .threads = FLAGS_threads};
  if (status.ok()) status = CheckOptions(options);
  if (!status.ok()) {
    PrintError("mica_generate", status);
    return kExitUsage;
  }
  const volatile std::sig_atomic_t& stop_signal = CatchSignals();
  const absl::StatusOr<Generation> made = Generate(options, stop_signal);
  if (!made.ok()) {
    PrintError("mica_generate", made.status());
    return kExitFailed;
  }
  Print(*made);
  return made->is_stopped ? 128 + stop_signal : 0;
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("goes on with a text by an exported decoder");
  return mica::Main(argc, argv);
}
