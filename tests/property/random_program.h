// Programs made at random, for tests of laws that hold for all of them.

#ifndef MICA_TESTS_PROPERTY_RANDOM_PROGRAM_H_
#define MICA_TESTS_PROPERTY_RANDOM_PROGRAM_H_

#include <cstdint>

#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

struct RandomProgramOptions {
  int max_ops = 40;
  // Some results get other than row-major strides.
  bool choose_strides = true;
  // Another table of sizes: a seed's Program then is mostly the same one in
  // other sizes.
  bool use_other_sizes = false;
};

// A static Program of small f32 or f64 tensors: elementwise ops with
// broadcasting, products, reductions, views of views, joins, choices, unused
// results, updates of inputs and variables; outputs that are computed values,
// views, inputs, constants, or the same twice. Floats stay near 1. Equal seeds
// give equal Programs.
Program RandomProgram(uint64_t seed, const OpRegistry& ops,
                      const RandomProgramOptions& options = {});

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_RANDOM_PROGRAM_H_
