#include "analysis/pipeline/pass_pipeline.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/passes/origins.h"
#include "analysis/passes/verify.h"
#include "analysis/pipeline/all_passes.h"
#include "framework/base/status.h"
#include "framework/ir/program_editor.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

bool Applies(const Pass& pass, const OpNames& names) {
  return pass.applies == nullptr || pass.applies(names);
}

bool ReadsSizes(const Pass& pass, const OpNames& names) {
  return pass.reads_sizes != nullptr && Applies(pass, names) &&
         pass.reads_sizes(names);
}

// One run of a pass over a Program and the bodies in it.
class BlockRun {
 public:
  BlockRun(const Pass& pass, const PassContext& context)
      : pass_(pass), context_(context) {}

  absl::StatusOr<Program> Run(Program program) {
    if (pass_.is_by_block && program.depth() > 0) {
      MICA_ASSIGN_OR_RETURN(program, RunOnBodies(std::move(program)));
      // What it has something to do for may all be in them.
      if (!Applies(pass_, OpNames::Of(program))) return program;
    }
    return pass_.run(std::move(program), context_);
  }

 private:
  // The Program with what the pass makes of its bodies.
  absl::StatusOr<Program> RunOnBodies(Program program) {
    ProgramEditor editor(std::move(program));
    for (OpId id = 0; id < editor.num_ops(); ++id) {
      const Bodies& given = editor.program().ops()[id].bodies;
      if (given.empty()) continue;
      Bodies bodies;
      for (const auto& body : given) {
        if (!passed_.contains(body)) {
          MICA_ASSIGN_OR_RETURN(Program passed, Run(*body));
          passed_[body] = std::make_shared<const Program>(std::move(passed));
        }
        bodies.push_back(passed_[body]);
      }
      editor.SetBodies(id, std::move(bodies));
    }
    return editor.Freeze();
  }

  const Pass& pass_;
  const PassContext& context_;
  // By what it was: so that functions stay shared, and are taken once.
  absl::flat_hash_map<std::shared_ptr<const Program>,
                      std::shared_ptr<const Program>>
      passed_;
};

// From when a pass begins on.
class PassTimer {
 public:
  PassTimer(const Pass& pass, const Program& given, const PassOptions& options)
      : options_(options),
        span_("pass", pass.name),
        time_{.pass = pass.name,
              .ops_before = static_cast<int64_t>(given.ops().size())} {}

  // Tells what it took, to whoever wants to know.
  void End(const Program& passed) {
    if (options_.times == nullptr) return;
    time_.ms = absl::ToDoubleMilliseconds(absl::Now() - start_);
    time_.ops_after = static_cast<int64_t>(passed.ops().size());
    options_.times->push_back(time_);
  }

 private:
  const PassOptions& options_;
  const TraceSpan span_;
  PassTime time_;
  const absl::Time start_ = absl::Now();
};

absl::StatusOr<Program> RunTimed(const Pass& pass, Program program,
                                 const PassContext& context,
                                 const PassOptions& options) {
  PassTimer timer(pass, program, options);
  MICA_ASSIGN_OR_RETURN(program,
                        BlockRun(pass, context).Run(std::move(program)));
  timer.End(program);
  return program;
}

// Shows the Program to who watches: behind pass number `count`, or as given.
absl::Status Show(absl::string_view pass, int count, const Program& program,
                  const PassOptions& options) {
  if (options.dump != nullptr) {
    MICA_RETURN_IF_ERROR(options.dump->Write(program, count, pass));
  }
  if (!options.verify) return absl::OkStatus();
  const absl::Status status = Verify(program);
  if (status.ok()) return status;
  return absl::InternalError(
      absl::StrCat("program @", program.name(), ", ",
                   count == 0 ? "as given" : absl::StrCat("behind pass ", pass),
                   ", isn't well formed: ", status.message()));
}

}  // namespace

const PassPipeline& PassPipeline::All() {
  static const PassPipeline& all = *[] {
    auto pipeline = std::make_unique<PassPipeline>();
    for (const Pass& pass : AllPasses()) pipeline->passes_.push_back(&pass);
    return pipeline.release();
  }();
  return all;
}

const PassPipeline& PassPipeline::AllWithFunctions() {
  static const PassPipeline& all = *[] {
    auto pipeline = std::make_unique<PassPipeline>(All());
    const Pass* find = FunctionPasses().data();
    pipeline->passes_.insert(pipeline->passes_.begin(), find);
    return pipeline.release();
  }();
  return all;
}

const PassPipeline& PassPipeline::Known() {
  static const PassPipeline& known = *[] {
    auto pipeline = std::make_unique<PassPipeline>(All());
    for (const Pass& pass : FunctionPasses()) {
      pipeline->passes_.push_back(&pass);
    }
    for (const Pass& pass : PrecisionPasses()) {
      pipeline->passes_.push_back(&pass);
    }
    return pipeline.release();
  }();
  return known;
}

absl::StatusOr<PassPipeline> PassPipeline::Parse(absl::string_view text) {
  const PassPipeline& known = Known();
  PassPipeline pipeline;
  for (absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const absl::string_view name = absl::StripAsciiWhitespace(word);
    const auto it =
        std::find_if(known.passes_.begin(), known.passes_.end(),
                     [&](const Pass* pass) { return pass->name == name; });
    if (it == known.passes_.end()) {
      return absl::NotFoundError(
          absl::StrCat("no pass \"", name, "\"; there are ", known.ToText()));
    }
    pipeline.passes_.push_back(*it);
  }
  return pipeline;
}

std::string PassPipeline::ToText() const {
  return absl::StrJoin(passes_, ",", [](std::string* out, const Pass* pass) {
    absl::StrAppend(out, pass->name);
  });
}

PassPipeline PassPipeline::With(Precision precision) const {
  PassPipeline pipeline = *this;
  if (precision == Precision::kAsWritten) return pipeline;
  const auto place = std::find_if(pipeline.passes_.begin(),
                                  pipeline.passes_.end(), [](const Pass* pass) {
                                    return pass->name == "choose-layouts" ||
                                           pass->name == "merge-elementwise";
                                  });
  pipeline.passes_.insert(place,
                          &PrecisionPasses()[static_cast<int>(precision) - 1]);
  return pipeline;
}

PassPipeline PassPipeline::Without(absl::string_view name) const {
  PassPipeline others = *this;
  auto& passes = others.passes_;
  passes.erase(
      std::remove_if(passes.begin(), passes.end(),
                     [&](const Pass* pass) { return pass->name == name; }),
      passes.end());
  return others;
}

PassPipeline PassPipeline::First(int count) const {
  PassPipeline first = *this;
  first.passes_.resize(
      std::min(first.passes_.size(), static_cast<size_t>(std::max(count, 0))));
  return first;
}

absl::StatusOr<Program> PassPipeline::RunFrom(
    int* next, bool ends_at_sizes, Program program, const PassContext& context,
    const PassOptions& options) const {
  if (*next == 0) MICA_RETURN_IF_ERROR(Show("", 0, program, options));
  OpNames names = OpNames::WithBodies(program);
  for (; *next < static_cast<int>(passes_.size()); ++*next) {
    const Pass& pass = *passes_[*next];
    if (ends_at_sizes && ReadsSizes(pass, names)) break;
    if (!Applies(pass, names)) continue;
    MICA_ASSIGN_OR_RETURN(program,
                          RunTimed(pass, std::move(program), context, options));
    MICA_RETURN_IF_ERROR(Show(pass.name, *next + 1, program, options));
    names = OpNames::WithBodies(program);
  }
  return program;
}

absl::StatusOr<Program> PassPipeline::Begin(const Program& given,
                                            const PassContext& context,
                                            const PassOptions& options,
                                            int* next) const {
  *next = 0;
  const Pass* pass = passes_.empty() ? nullptr : passes_[0];
  if (pass == nullptr || pass->run_on_given == nullptr || given.depth() > 0) {
    return WithOrigins(given);
  }
  MICA_RETURN_IF_ERROR(Show("", 0, given, options));
  *next = 1;
  PassTimer timer(*pass, given, options);
  MICA_ASSIGN_OR_RETURN(auto passed, pass->run_on_given(given, context));
  if (!passed.has_value()) return WithOrigins(given);
  timer.End(*passed);
  MICA_RETURN_IF_ERROR(Show(pass->name, 1, *passed, options));
  return *std::move(passed);
}

absl::StatusOr<Program> PassPipeline::Run(Program program,
                                          const PassContext& context,
                                          const PassOptions& options,
                                          int first) const {
  return RunFrom(&first, /*ends_at_sizes=*/false, std::move(program), context,
                 options);
}

absl::StatusOr<Program> PassPipeline::RunUntilSizesAreRead(
    Program program, const PassContext& context, const PassOptions& options,
    int* next) const {
  return RunFrom(next, /*ends_at_sizes=*/true, std::move(program), context,
                 options);
}

}  // namespace mica
