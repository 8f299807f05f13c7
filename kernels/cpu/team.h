// Threads that share a kernel's pieces without OpenMP.

#ifndef MICA_KERNELS_CPU_TEAM_H_
#define MICA_KERNELS_CPU_TEAM_H_

namespace mica::cpu {

// Who runs the pieces of a kernel that is launched on this thread.
class Team {
 public:
  using PieceFn = void (*)(const void* state, int piece);

  virtual ~Team() = default;
  // Calls `run(state, i)` once for each 0 <= i < num_pieces, in any order, on
  // this thread and perhaps on others; returns when all have returned. A piece
  // must not ask its thread's team for more.
  virtual void Run(int num_pieces, PieceFn run, const void* state) = 0;
};

// The team of this thread; null: pieces run on OpenMP's.
Team* CurrentTeam();

// While one lives, pieces of kernels that this thread launches run on `team`.
class TeamScope {
 public:
  explicit TeamScope(Team* team);
  ~TeamScope();
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;

 private:
  Team* const before_;
};

// All pieces one after the other, on the thread itself.
Team* TeamOfOne();

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_TEAM_H_
