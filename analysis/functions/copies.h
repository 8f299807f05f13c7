// Which of several runs of ops compute the same of other values.

#ifndef MICA_ANALYSIS_FUNCTIONS_COPIES_H_
#define MICA_ANALYSIS_FUNCTIONS_COPIES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/functions/op_table.h"
#include "analysis/functions/repeats.h"
#include "framework/ir/program.h"

namespace mica {

// A result of an op, counted from a copy's first op.
struct LocalResult {
  int32_t op = 0;
  int32_t result = 0;
  friend bool operator==(const LocalResult&, const LocalResult&) = default;
  friend bool operator<(const LocalResult& a, const LocalResult& b) {
    return std::make_pair(a.op, a.result) < std::make_pair(b.op, b.result);
  }
};

// One copy: ops from `begin` on; what they read of others, in the order in
// which the group's first copy reads that first; and what the function is given
// for that. One value may stand for two of the first copy's.
struct Copy {
  OpId begin = 0;
  std::vector<ValueId> externals;
  std::vector<ValueId> inputs;
};

// What the function makes of its inputs to have what its ops read of others.
struct External {
  // Number of the input; -1 if only dead ops read it.
  int32_t input = -1;
  // Views of that, of the first copy, which all copies take alike: they cost
  // nothing, and are made in the function.
  std::vector<OpId> views;
};

// Copies of one function.
struct CopyGroup {
  std::vector<Copy> copies;
  int32_t size = 0;                  // Of a copy, in ops.
  std::vector<LocalResult> results;  // That somebody reads outside of any.
  // Views, counted from a copy's first op, that somebody may read outside: of
  // what is a result, or outside.
  std::vector<int32_t> views;
  // By op of a copy: nothing depends on it in any.
  std::vector<bool> is_dead;
  std::vector<External> externals;
};

// Of what stands where `repeat` says, the copies of each other, two at least in
// each group: of equal operators, arguments, types, wiring and liveness. What
// is read of them SetBorders() tells.
// `are_origins`: ops are their own origins; else SourceLine::origin says.
// `is_live` by op.
std::vector<CopyGroup> GroupCopies(const OpTable& table,
                                   const std::vector<bool>& is_live,
                                   const Repeat& repeat, bool are_origins);

// Finds what groups, those of all repeats, are given and have to give. Leaves
// out those in which one of the results lies as none may, or nothing is alive.
void SetBorders(const OpTable& table, const std::vector<bool>& is_live,
                std::vector<CopyGroup>& groups);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUNCTIONS_COPIES_H_
