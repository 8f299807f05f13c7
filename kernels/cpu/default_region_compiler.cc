// The compiler of regions that a process uses, as its environment has it.

#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/environment.h"
#include "framework/base/file_store.h"
#include "glog/logging.h"
#include "kernels/cpu/region_compiler.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Whether MICA_JIT lets regions be compiled.
bool IsWanted() {
#if !defined(__x86_64__)
  return false;
#endif
  const std::string text = EnvironmentVariable("MICA_JIT");
  if (text.empty() || text == "llvm") return true;
  if (text == "interpreter" || text == "off") return false;
  // There is nobody to return a Status to.
  LOG(ERROR) << "MICA_JIT wants llvm, interpreter or off; got " << text
             << ", regions are compiled";
  return true;
}

RegionLevel LevelOf(absl::string_view table) {
  if (table == "x86-64-v4") return RegionLevel::kV4;
  if (table == "x86-64-v3") return RegionLevel::kV3;
  return RegionLevel::kV1;
}

}  // namespace

RegionCompiler::Options RegionCompiler::DefaultOptions() {
  Options options;
  options.is_on = IsWanted();
  options.level = LevelOf(Simd().name);
  options.loops = &Simd().region;
  options.library = EnvironmentVariable("MICA_LLVM_LIBRARY");
  if (EnvironmentVariable("MICA_PLAN_CACHE") != "0") {
    const auto folder = DefaultCacheFolder("code cache");
    if (folder.ok()) options.folder = *folder;
  }
  return options;
}

RegionCompiler& RegionCompiler::Get() {
  static RegionCompiler& compiler = *[] {
    static auto* const made = new RegionCompiler(DefaultOptions());
    // Its thread may be at work when the process, or the library that this is
    // in, ends.
    std::atexit([] { made->Stop(); });
    return made;
  }();
  return compiler;
}

}  // namespace mica::cpu
