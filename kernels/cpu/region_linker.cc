#include "kernels/cpu/region_linker.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/op/region_op_list.h"
#include "kernels/region/loop_table.h"

namespace mica::cpu {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

uint64_t WordAt(const std::string& bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, &bytes[at], kWord);
  return word;
}

absl::StatusOr<TileFn> FindLoop(uint64_t id, const RegionLoops* loops) {
  if (id >= region::kNumLoopIds) {
    return absl::DataLossError(
        absl::StrCat("code of a region: there is no loop ", id));
  }
  const TileKind kind = id % 2 == 1 ? TileKind::kF64 : TileKind::kF32;
  const TileFn loop =
      loops == nullptr ? nullptr : loops->ops[id / 2][static_cast<int>(kind)];
  if (loop == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "code of a region: calls loop ", id, ", which isn't at hand"));
  }
  return loop;
}

}  // namespace

absl::StatusOr<MachineCode> LoadRegionCode(CodeImage image,
                                           const RegionLoops* loops) {
  std::string& bytes = image.bytes;
  const uint64_t words = bytes.size() / kWord;
  const uint64_t count = words == 0 ? 0 : WordAt(bytes, bytes.size() - kWord);
  if (words == 0 || count >= words) {
    return absl::DataLossError("code of a region: has no table of loops");
  }
  for (uint64_t i = 1; i <= count; ++i) {
    const size_t at = bytes.size() - kWord * (i + 1);
    MICA_ASSIGN_OR_RETURN(const TileFn loop,
                          FindLoop(WordAt(bytes, at), loops));
    std::memcpy(&bytes[at], &loop, sizeof(loop));
  }
  return MachineCode::Load(bytes, image.entry);
}

}  // namespace mica::cpu
