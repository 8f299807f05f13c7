// Regions that tests compile and run.

#ifndef MICA_KERNELS_LLVM_REGION_TESTING_H_
#define MICA_KERNELS_LLVM_REGION_TESTING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "kernels/cpu/machine_code.h"
#include "kernels/cpu/region_linker.h"
#include "kernels/cpu/region_plugin.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/region/region_rows.h"
#include "kernels/region/signature.h"

namespace mica::region {

// Those that this processor runs.
inline std::vector<std::string> LevelsHere() {
  std::vector<std::string> levels = {"v1"};
  if (__builtin_cpu_supports("x86-64-v3")) levels.push_back("v3");
  if (__builtin_cpu_supports("x86-64-v4")) levels.push_back("v4");
  return levels;
}

inline const cpu::RegionLoops* LoopsOf(const std::string& level) {
  const cpu::SimdTable* const table = level == "v4"   ? cpu::SimdV4()
                                      : level == "v3" ? cpu::SimdV3()
                                                      : cpu::SimdV1();
  return table == nullptr ? nullptr : &table->region;
}

// Code of a signature's text.
inline absl::StatusOr<cpu::MachineCode> CompileText(const std::string& text,
                                                    const std::string& level) {
  static const auto& plugin = *new absl::StatusOr<cpu::RegionPlugin>(
      cpu::RegionPlugin::Load(/*path=*/""));
  MICA_RETURN_IF_ERROR(plugin.status());
  MICA_ASSIGN_OR_RETURN(cpu::CodeImage image,
                        plugin->Compile(text, level.c_str()));
  return cpu::LoadRegionCode(std::move(image), LoopsOf(level));
}

// Arrays of a signature, each in its own bytes, with guards around: rows of n
// elements, `gap` elements apart in a row if strided, and rows at some
// distance.
class Arrays {
 public:
  Arrays(const Signature& signature, int64_t rows, int64_t n) {
    Add(signature.operands, rows, n);
    Add(signature.results, rows, n);
    rows_ = {.at = at_.data(),
             .row_steps = row_steps_.data(),
             .steps = steps_.data(),
             .rows = rows,
             .n = n};
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  // Element i of a row of array k.
  char* At(int k, int64_t row, int64_t i) const {
    return at_[k] + row * row_steps_[k] + i * steps_[k];
  }
  // Lets array k lie where array `other` does.
  void Share(int k, int other) {
    at_[k] = at_[other];
    row_steps_[k] = row_steps_[other];
    steps_[k] = steps_[other];
  }
  void Leave(int k) { at_[k] = nullptr; }
  const RegionRows& rows() const { return rows_; }
  // All bytes of array k.
  std::vector<char>& bytes(int k) { return bytes_[k]; }

 private:
  void Add(const std::vector<Array>& arrays, int64_t rows, int64_t n) {
    constexpr int64_t kGuard = 64;
    for (const Array& array : arrays) {
      const int64_t bytes = ElementBytes(array.dtype);
      const int64_t step = array.access == Access::kOne       ? 0
                           : array.access == Access::kStrided ? 3 * bytes
                                                              : bytes;
      const int64_t row_step = (n + 1) * step + bytes;
      bytes_.emplace_back(2 * kGuard + rows * row_step, '\x5a');
      at_.push_back(bytes_.back().data() + kGuard);
      row_steps_.push_back(row_step);
      steps_.push_back(step);
    }
  }

  std::vector<std::vector<char>> bytes_;
  std::vector<char*> at_;
  std::vector<int64_t> row_steps_, steps_;
  RegionRows rows_;
};

}  // namespace mica::region

#endif  // MICA_KERNELS_LLVM_REGION_TESTING_H_
