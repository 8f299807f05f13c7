// How many OpenMP threads a library may use that asks OpenMP itself.

#ifndef MICA_KERNELS_CPU_TEAM_SIZE_H_
#define MICA_KERNELS_CPU_TEAM_SIZE_H_

namespace mica::cpu {

// While one lives, libraries that this thread calls use `num_threads` threads:
// oneDNN takes what OpenMP says, when a primitive is made and when it runs. How
// a sum is cut depends on it, so results would with the machine's cores.
class TeamSize {
 public:
  explicit TeamSize(int num_threads);
  ~TeamSize();
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  const int before_;
  const bool is_changed_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_TEAM_SIZE_H_
