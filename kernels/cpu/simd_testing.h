#ifndef MICA_KERNELS_CPU_SIMD_TESTING_H_
#define MICA_KERNELS_CPU_SIMD_TESTING_H_

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs a test once for each table that this machine can run.
class SimdTest : public ::testing::TestWithParam<const SimdTable*> {
 protected:
  const SimdTable& table() const { return *GetParam(); }
};

inline std::vector<const SimdTable*> TablesHere() {
  std::vector<const SimdTable*> tables = {SimdV1()};
  if (SimdV3() != nullptr) tables.push_back(SimdV3());
  if (SimdV4() != nullptr) tables.push_back(SimdV4());
  return tables;
}

// "v1", "v3", "v4".
inline std::string TableName(
    const ::testing::TestParamInfo<const SimdTable*>& info) {
  const std::string name = info.param->name;
  return name.substr(name.size() - 2);
}

// Uniform in -1..1, the same at every run.
inline std::vector<float> RandomFloats(int64_t n, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = uniform(random);
  return values;
}

}  // namespace mica::cpu

#define MICA_INSTANTIATE_SIMD_TEST(Name)                                 \
  INSTANTIATE_TEST_SUITE_P(All, Name, ::testing::ValuesIn(TablesHere()), \
                           TableName)

#endif  // MICA_KERNELS_CPU_SIMD_TESTING_H_
