// What stands for oneDNN in a build without it: kernels that decline.

#include "kernels/cpu/families.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_matmul.h"

namespace mica::cpu {
namespace {

absl::Status NotBuilt() {
  return absl::UnimplementedError("onednn: this build is without it");
}

}  // namespace

absl::Status CheckDnnlRuns() { return NotBuilt(); }
std::string DnnlVersion() { return "onednn none"; }
std::string DnnlInstructions() { return "onednn none"; }

struct OneDnnMatmul::Handles {};

OneDnnMatmul::~OneDnnMatmul() = default;
absl::StatusOr<std::shared_ptr<const OneDnnMatmul>> OneDnnMatmul::Create(
    const OneDnnMatmulSpec&) {
  return NotBuilt();
}
std::string OneDnnMatmul::packed_layout() const { return ""; }
absl::Status OneDnnMatmul::Pack(const void*, void*) const { return NotBuilt(); }

struct OneDnnMatmulRun::Handles {};

OneDnnMatmulRun::~OneDnnMatmulRun() = default;
absl::StatusOr<std::unique_ptr<OneDnnMatmulRun>> OneDnnMatmulRun::Create(
    const OneDnnMatmul&) {
  return NotBuilt();
}
absl::Status OneDnnMatmulRun::Run(const void*, const void*, const void*,
                                  const void*, void*, void*) {
  return NotBuilt();
}

void RegisterOneDnnConvolution(KernelRegistry&) {}
void RegisterOneDnnHalfConvolution(KernelRegistry&) {}

}  // namespace mica::cpu
