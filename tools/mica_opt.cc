// Runs passes over a Program and prints what they leave. No Python, no torch.
//
//   mica_opt --passes=fuse-linear,merge-elementwise FILE

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/flags.h"
#include "tools/optimise.h"

DEFINE_string(passes, "all",
              "the passes to run, in order: fuse-linear,merge-elementwise; "
              "all: those that come before planning");
DEFINE_int32(stop_after, -1,
             "only the first so many of them, to find the one that breaks "
             "something; -1: all");
DEFINE_bool(verify, true, "checks the Program before and behind each pass");
DEFINE_string(dump_passes, "",
              "writes the Program between passes into this folder");
DEFINE_bool(times, false,
            "prints what each pass took, and how many ops it left, to stderr");
DEFINE_bool(verdicts, false,
            "prints why ops that could be one region aren't, in what passes "
            "leave that come before merge-elementwise");
DEFINE_bool(list, false, "prints the passes that there are, and ends");

namespace mica {
namespace {

absl::StatusOr<std::string> Optimise(const std::string& path,
                                     PassPipeline passes) {
  if (FLAGS_stop_after >= 0) passes = passes.First(FLAGS_stop_after);
  MICA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  if (FLAGS_verdicts) {
    return VerdictsOfText(text, passes.Without("merge-elementwise"));
  }
  PassDump dump(FLAGS_dump_passes);
  std::vector<PassTime> times;
  auto optimised =
      OptimiseText(text, passes,
                   {.verify = FLAGS_verify,
                    .dump = FLAGS_dump_passes.empty() ? nullptr : &dump,
                    .times = &times});
  for (const PassTime& time : times) {
    if (!FLAGS_times) break;
    absl::FPrintF(stderr, "%8.3f ms  %7d -> %7d ops  %s\n", time.ms,
                  time.ops_before, time.ops_after, time.pass);
  }
  return optimised;
}

int Main(int argc, char** argv) {
  std::vector<std::string> files;
  absl::Status status = ParseFlags(argc, argv, "mica_opt.cc", {}, &files);
  if (status.ok() && FLAGS_list) {
    std::printf("%s", ListPasses().c_str());
    return 0;
  }
  if (status.ok() && files.size() != 1) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "wants one .mica file, got ", files.size(), "; see --help"));
  }
  const auto passes = PassPipeline::Parse(
      FLAGS_passes == "all" ? PassPipeline::All().ToText() : FLAGS_passes);
  if (status.ok()) status = passes.status();
  if (!status.ok()) {
    PrintError("mica_opt", status);
    return kExitUsage;
  }
  const auto text = Optimise(files[0], *passes);
  if (!text.ok()) {
    PrintError("mica_opt", text.status());
    return kExitFailed;
  }
  std::printf("%s", text->c_str());
  return 0;
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("runs passes over a Program and prints the result");
  return mica::Main(argc, argv);
}
