// The library that compiles regions, which may be missing.

#ifndef MICA_KERNELS_CPU_REGION_PLUGIN_H_
#define MICA_KERNELS_CPU_REGION_PLUGIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/code_store.h"
#include "kernels/llvm/plugin.h"

namespace mica::cpu {

// Stays loaded until the process ends. Thread-safe.
class RegionPlugin {
 public:
  // The library at `path`; if that is "", libmica_llvm.so beside the object
  // that this code is in, or in ../lib of that. NotFound, naming them, if there
  // is none; FailedPrecondition if it can't be loaded, with the dynamic
  // linker's words, or is of other sources.
  static absl::StatusOr<RegionPlugin> Load(const std::string& path);

  const char* name() const { return name_; }  // "LLVM 19.1.7".
  // A signature's text to code for a level's name. Internal if it can't.
  absl::StatusOr<CodeImage> Compile(absl::string_view text,
                                    const char* level) const;

 private:
  RegionPlugin(MicaLlvmCompileFn* compile, const char* name)
      : compile_(compile), name_(name) {}

  MicaLlvmCompileFn* compile_;
  const char* name_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_PLUGIN_H_
