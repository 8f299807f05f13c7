// Machine code for regions, made beside the run that wants it.

#ifndef MICA_KERNELS_CPU_REGION_COMPILER_H_
#define MICA_KERNELS_CPU_REGION_COMPILER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/cpu/machine_code.h"
#include "kernels/cpu/region_loops.h"
#include "kernels/region/region_rows.h"

namespace mica::cpu {

// The code of one signature, sooner or later. Thread-safe.
class RegionMachineCode {
 public:
  // Null until the code is there, or for ever if there is none. Callable from
  // any thread as long as this lives.
  region::RegionFn fn() const { return fn_.load(std::memory_order_acquire); }

 private:
  friend class RegionCompiler;
  MachineCode code_;  // Written before fn_ is.
  std::atomic<region::RegionFn> fn_ = nullptr;
};

// Which instructions of x86-64 may be used, as simd_table.h has them.
enum class RegionLevel : uint8_t { kV1, kV3, kV4 };
absl::string_view RegionLevelName(RegionLevel level);  // "v1".

// Makes code on a thread of somewhat low priority, which lives while there is
// work.
// Code comes from a folder of this user's on disk, if an equal signature was
// compiled before, by whatever build of the same emitter; else from a plugin,
// libmica_llvm.so, which is loaded at the first use. What fails is told in the
// log once, and whoever asked goes on without code.
//
// Thread-safe, and lives through fork(): a child makes what it wants itself.
class RegionCompiler {
 public:
  struct Options {
    // False: there is never any code, and nothing is loaded.
    bool is_on = true;
    RegionLevel level = RegionLevel::kV1;
    // Those of that level, which code may call. Null: such code fails.
    const RegionLoops* loops = nullptr;
    // Of the plugin. "": in MICA_LLVM_LIBRARY, else beside the object that this
    // code is in, or in ../lib of that.
    std::string library;
    // Where images are kept. "": nowhere.
    std::string folder;
    int64_t max_folder_bytes = int64_t{64} << 20;
  };
  struct Stats {
    int64_t compiled = 0, loaded = 0, failed = 0;  // Signatures; loaded: read.
    int64_t image_bytes = 0;                       // Of those two.
    double compile_ms = 0, load_ms = 0;            // In all.
    // What makes code: "LLVM 19.1.7 for v4", or why nothing does. Says so only
    // once something has been compiled, or was to be.
    std::string compiler;
  };

  // What the process uses. For the level of Simd(); the environment decides on
  // the rest: MICA_JIT=interpreter or off for no code, MICA_CACHE_DIR and
  // MICA_PLAN_CACHE on the folder as for Plans.
  static RegionCompiler& Get();
  // What it is made of.
  static Options DefaultOptions();

  explicit RegionCompiler(Options options);
  // Waits for what is being compiled, and drops what isn't.
  ~RegionCompiler();
  RegionCompiler(const RegionCompiler&) = delete;
  RegionCompiler& operator=(const RegionCompiler&) = delete;

  // Returns at once: what is on disk has its code then. Equal signatures share
  // one as long as one of them is held; what nobody holds any more isn't
  // compiled.
  std::shared_ptr<const RegionMachineCode> Request(
      const region::Signature& signature);

  bool is_on() const;
  Stats stats() const;
  // Until all that was requested is there or has failed.
  void Wait();
  // As the destructor; requests are taken no more.
  void Stop();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_COMPILER_H_
