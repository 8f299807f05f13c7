#include "kernels/cpu/team.h"

namespace mica::cpu {
namespace {

thread_local Team* current_team = nullptr;

class Alone : public Team {
 public:
  void Run(int num_pieces, PieceFn run, const void* state) override {
    for (int i = 0; i < num_pieces; ++i) run(state, i);
  }
};

}  // namespace

Team* CurrentTeam() { return current_team; }

TeamScope::TeamScope(Team* team) : before_(current_team) {
  current_team = team;
}

TeamScope::~TeamScope() { current_team = before_; }

Team* TeamOfOne() {
  static Alone& alone = *new Alone;
  return &alone;
}

}  // namespace mica::cpu
