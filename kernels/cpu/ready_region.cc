#include "kernels/cpu/ready_region.h"

#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

region::Access AccessOf(int64_t step, int64_t bytes, int64_t n) {
  if (step == bytes || n == 1) return region::Access::kDense;
  return step == 0 ? region::Access::kOne : region::Access::kStrided;
}

bool LiesAlike(const TensorType& operand, const TensorType& result) {
  return !operand.is_scalar && operand.dims == result.dims &&
         ElementBytes(operand.dtype) == ElementBytes(result.dtype) &&
         operand.EffectiveStrides() == result.EffectiveStrides();
}

std::optional<std::string> ReadyRegion::Make(const region::Signature& signature,
                                             int64_t n, bool wants_code,
                                             ReadyRegion& ready) {
  constexpr int64_t kLongRow = 512;
  ready = {};
  if (auto no = RegionTiles::Make(signature, Simd().region, ready.tiles_)) {
    return no;
  }
  if (!wants_code) return std::nullopt;
  RegionCompiler& compiler = RegionCompiler::Get();
  if (n >= kLongRow) ready.stages_ = RegionStages::Make(signature, compiler);
  if (!ready.stages_.has_value()) ready.code_ = compiler.Request(signature);
  return std::nullopt;
}

void ReadyRegion::Run(const region::RegionRows& rows) const {
  const region::RegionFn fn = code_ == nullptr ? nullptr : code_->fn();
  if (stages_.has_value() && stages_->is_ready()) {
    stages_->Run(rows);
  } else if (fn != nullptr) {
    fn(rows);
  } else {
    tiles_.Run(rows);
  }
}

}  // namespace mica::cpu
