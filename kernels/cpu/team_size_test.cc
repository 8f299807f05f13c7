#include "kernels/cpu/team_size.h"

#include <omp.h>

#include "gtest/gtest.h"

namespace mica::cpu {
namespace {

TEST(TeamSizeTest, HoldsWhileItLives) {
  const int before = omp_get_max_threads();
  {
    const TeamSize outer(3);
    EXPECT_EQ(omp_get_max_threads(), 3);
    {
      const TeamSize inner(1);
      EXPECT_EQ(omp_get_max_threads(), 1);
    }
    EXPECT_EQ(omp_get_max_threads(), 3);
  }
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace mica::cpu
