// 128 bits that stand for some bytes, the same on every machine and for ever.

#ifndef MICA_FRAMEWORK_BASE_FINGERPRINT_H_
#define MICA_FRAMEWORK_BASE_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace mica {

// Equal bytes have equal fingerprints; that equal ones mean equal bytes is
// very likely, and never to be relied on: compare the bytes too.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;
  std::string ToHex() const;  // 32 digits.
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Fingerprint& fingerprint) {
    return H::combine(std::move(h), fingerprint.high, fingerprint.low);
  }
};

// XXH3, 128 bits, without a seed: a published algorithm whose values no longer
// change.
Fingerprint FingerprintOf(absl::string_view bytes);

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_FINGERPRINT_H_
