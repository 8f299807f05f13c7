// Which passes run over a Program, in which order.

#ifndef MICA_ANALYSIS_PIPELINE_PASS_PIPELINE_H_
#define MICA_ANALYSIS_PIPELINE_PASS_PIPELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/passes/pass.h"
#include "analysis/pipeline/pass_dump.h"
#include "analysis/precision/precision.h"
#include "framework/ir/program.h"

namespace mica {

// What one pass did.
struct PassTime {
  absl::string_view pass;
  double ms = 0;
  int64_t ops_before = 0;
  int64_t ops_after = 0;
};

// How a pipeline is watched.
struct PassOptions {
  // Checks the Program before the first pass and behind each (passes/verify.h).
#ifdef NDEBUG
  bool verify = false;
#else
  bool verify = true;
#endif
  // Gets the Program before the first pass and behind each; null: nobody does.
  PassDump* dump = nullptr;
  // Gets an entry for each pass that had something to do; null: nobody does.
  std::vector<PassTime>* times = nullptr;
};

// A list of passes: a value, to be printed, read, cut off and run. Thread-safe
// but for changes.
class PassPipeline {
 public:
  // All passes, in their order.
  static const PassPipeline& All();
  // The same, but repeated layers are found first: the others take each once.
  static const PassPipeline& AllWithFunctions();
  // Each that there is, whether it runs by default or not: no order to run in.
  static const PassPipeline& Known();
  // "fuse-linear,merge-elementwise", also what ToText() gives; "" has none.
  // NotFound, with the names that there are, for another name.
  static absl::StatusOr<PassPipeline> Parse(absl::string_view text);

  absl::Span<const Pass* const> passes() const { return passes_; }
  std::string ToText() const;
  // Its first `count` passes, or all: to find the one that breaks something.
  PassPipeline First(int count) const;

  // The same with products in few bits, before layouts are chosen and regions
  // are made.
  PassPipeline With(Precision precision) const;
  // The same but for the pass of that name, if it is there.
  PassPipeline Without(absl::string_view name) const;

  // Runs the passes from number `first` on over `program`, each on bodies
  // before what they stand in. What a pass says against it; Internal, naming
  // the pass, if `options.verify` finds what it leaves not to be well formed.
  absl::StatusOr<Program> Run(Program program, const PassContext& context,
                              const PassOptions& options = {},
                              int first = 0) const;
  // A copy of `given` whose ops know their origins, or what the first pass
  // makes of it where that spares the copy (Pass::run_on_given). `next` gets
  // the number of the pass to go on with.
  absl::StatusOr<Program> Begin(const Program& given,
                                const PassContext& context,
                                const PassOptions& options, int* next) const;
  // The same as Run() from pass `*next` on, but ends before the first pass that
  // reads sizes (Pass) of what those before it have left. `next` gets its
  // number, or that of passes.
  absl::StatusOr<Program> RunUntilSizesAreRead(Program program,
                                               const PassContext& context,
                                               const PassOptions& options,
                                               int* next) const;

 private:
  absl::StatusOr<Program> RunFrom(int* next, bool ends_at_sizes,
                                  Program program, const PassContext& context,
                                  const PassOptions& options) const;

  std::vector<const Pass*> passes_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PIPELINE_PASS_PIPELINE_H_
