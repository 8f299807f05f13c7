// Numbers that look random and are the same in every process.

#ifndef MICA_TOOLS_MIX_H_
#define MICA_TOOLS_MIX_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mica {

// An odd number near 2^64 divided by the golden ratio: as the step of a
// counter whose values are mixed, it gives splitmix64.
inline constexpr uint64_t kMixStep = 0x9e3779b97f4a7c15;

// A bijection in which each bit of the result depends on all bits.
// Source: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number
// generators", with Stafford's constants of variant 13.
inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// FNV-1a of 64 bits.
inline uint64_t HashBytes(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace mica

#endif  // MICA_TOOLS_MIX_H_
