// Programs with branches and loops, made at random.

#ifndef MICA_TESTS_PROPERTY_RANDOM_CONTROL_H_
#define MICA_TESTS_PROPERTY_RANDOM_CONTROL_H_

#include <cstdint>

#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

struct RandomControlOptions {
  // The sizes that inputs have; 2 or more, and not equal: a seed's Program then
  // is mostly the same one in other sizes.
  int64_t rows = 2;
  int64_t columns = 3;
};

// A static Program of inputs, elementwise ops, products, views, and branches
// and loops of these, nested up to three deep. Loops run 0 to 4 rounds, as a
// constant or the data say; branches are taken as the data say. Bodies return
// what they computed, views, constants, operands, one value twice, and what
// nobody reads: of other types too, or not at all. Floats stay near 1. Equal
// seeds give equal Programs.
Program RandomControlProgram(uint64_t seed, const OpRegistry& ops,
                             const RandomControlOptions& options = {});

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_RANDOM_CONTROL_H_
