#include "tools/machine.h"

#include <malloc.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "framework/base/trim_large.h"

namespace mica {
namespace {

// The commit that a reference ("refs/heads/main") of the repository means.
std::string ReadReference(const std::filesystem::path& git,
                          const std::string& reference) {
  std::string line;
  std::ifstream loose(git / reference);
  if (std::getline(loose, line)) return line;
  std::ifstream packed(git / "packed-refs");
  while (std::getline(packed, line)) {
    absl::string_view entry = line;
    if (absl::ConsumeSuffix(&entry, reference)) {
      return std::string(absl::StripTrailingAsciiWhitespace(entry));
    }
  }
  return "unknown";
}

// A figure of this process; 0 where the system doesn't tell.
int64_t StatusBytes(absl::string_view name) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view rest = line;
    int64_t kilobytes = 0;
    if (absl::ConsumePrefix(&rest, name) && absl::ConsumeSuffix(&rest, " kB") &&
        absl::SimpleAtoi(rest, &kilobytes)) {
      return kilobytes * 1024;
    }
  }
  return 0;
}

}  // namespace

std::string MachineName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (absl::StartsWith(line, "model name") && colon != std::string::npos) {
      return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return "unknown";
}

std::string CommitName() {
  std::error_code error;
  std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  while (!error && folder.has_relative_path()) {
    const std::filesystem::path git = folder / ".git";
    std::ifstream head(git / "HEAD");
    std::string line;
    if (std::getline(head, line)) {
      absl::string_view reference = line;
      if (!absl::ConsumePrefix(&reference, "ref: ")) return line;
      return ReadReference(git, std::string(reference));
    }
    folder = folder.parent_path();
  }
  return "unknown";
}

int64_t PeakMemoryBytes() {
  const int64_t peak = StatusBytes("VmHWM:");
  if (peak > 0) return peak;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t ForgetPeakMemory() {
  TrimLarge();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // See proc(5).
  return file.good() ? StatusBytes("VmRSS:") : 0;
}

}  // namespace mica
