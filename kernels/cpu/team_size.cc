#include "kernels/cpu/team_size.h"

#include <omp.h>

namespace mica::cpu {

TeamSize::TeamSize(int num_threads)
    : before_(omp_get_max_threads()), is_changed_(num_threads != before_) {
  if (is_changed_) omp_set_num_threads(num_threads);
}

TeamSize::~TeamSize() {
  if (is_changed_) omp_set_num_threads(before_);
}

}  // namespace mica::cpu
