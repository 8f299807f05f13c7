#include "kernels/cpu/simd_table.h"

#include <cstdlib>

#include "absl/strings/string_view.h"
#include "glog/logging.h"
#include "kernels/cpu/simd/parts.h"

namespace mica::cpu {
namespace {

#define MICA_FILL_PART(Name) Fill##Name(table);

SimdTable MakeV1() {
  using namespace v1;
  SimdTable table;
#if defined(__x86_64__)
  table.name = "x86-64-v1";
#else
  table.name = "generic-v1";
#endif
  MICA_SIMD_PARTS(MICA_FILL_PART)
  return table;
}

#if defined(__x86_64__)

SimdTable MakeV3() {
  using namespace v3;
  SimdTable table;
  table.name = "x86-64-v3";
  MICA_SIMD_PARTS(MICA_FILL_PART)
  return table;
}

SimdTable MakeV4() {
  using namespace v4;
  SimdTable table;
  table.name = "x86-64-v4";
  MICA_SIMD_PARTS(MICA_FILL_PART)
  return table;
}

// All of what the level holds: the compiler may use any of it.
bool CanRunV3() { return __builtin_cpu_supports("x86-64-v3"); }
bool CanRunV4() { return __builtin_cpu_supports("x86-64-v4"); }

#endif

#undef MICA_FILL_PART

const SimdTable& Choose() {
  const char* text = std::getenv("MICA_SIMD");
  const absl::string_view wish = text != nullptr ? text : "";
  const SimdTable* const v3 = SimdV3();
  const SimdTable* const v4 = SimdV4();
  if (wish == "v1") return *SimdV1();
  if (wish == "v3" && v3 != nullptr) return *v3;
  const SimdTable* const widest =
      v4 != nullptr ? v4 : (v3 != nullptr ? v3 : SimdV1());
  // There is nobody to return a Status to.
  if (!wish.empty() && (wish != "v4" || widest != v4)) {
    LOG(WARNING) << "MICA_SIMD wants v1, v3 or v4, as far as the processor has "
                    "it; got "
                 << text << ", kernels run as " << widest->name;
  }
  return *widest;
}

}  // namespace

const SimdTable* SimdV1() {
  static const SimdTable table = MakeV1();
  return &table;
}

#if defined(__x86_64__)

const SimdTable* SimdV3() {
  if (!CanRunV3()) return nullptr;
  static const SimdTable table = MakeV3();
  return &table;
}

const SimdTable* SimdV4() {
  if (!CanRunV4()) return nullptr;
  static const SimdTable table = MakeV4();
  return &table;
}

#else

const SimdTable* SimdV3() { return nullptr; }
const SimdTable* SimdV4() { return nullptr; }

#endif

const SimdTable& Simd() {
  static const SimdTable& table = Choose();
  return table;
}

namespace {

// That of loops over elements of 1, 2, 4 and 8 bytes which is for `bytes`.
template <typename Fn>
Fn OfBytes(int64_t bytes, Fn one, Fn two, Fn four, Fn eight) {
  switch (bytes) {
    case 1:
      return one;
    case 2:
      return two;
    case 4:
      return four;
    case 8:
      return eight;
    default:
      return nullptr;
  }
}

}  // namespace

GatherFn GatherOf(int64_t bytes) {
  const SimdTable& table = Simd();
  return OfBytes(bytes, table.gather8, table.gather16, table.gather32,
                 table.gather64);
}

PickFn PickOf(int64_t bytes) {
  const SimdTable& table = Simd();
  return OfBytes(bytes, table.pick8, table.pick16, table.pick32, table.pick64);
}

}  // namespace mica::cpu
