// A Signature as text, by which code is found again.

#ifndef MICA_KERNELS_REGION_SIGNATURE_H_
#define MICA_KERNELS_REGION_SIGNATURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/region/region_rows.h"

namespace mica::region {

// The code, the operands, the results:
//
//   mul.f32 %0 2 -> $0 | f32.dense | f32.strided f32.dense.unused
std::string SignatureText(const Signature& signature);

// InvalidArgument for what SignatureText() doesn't print, and for code that
// names an operand there isn't or has another number of results.
absl::StatusOr<Signature> ParseSignature(absl::string_view text);

}  // namespace mica::region

#endif  // MICA_KERNELS_REGION_SIGNATURE_H_
