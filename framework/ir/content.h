// What a Program computes, as bytes: equal for Programs that are equal but for
// their labels.

#ifndef MICA_FRAMEWORK_IR_CONTENT_H_
#define MICA_FRAMEWORK_IR_CONTENT_H_

#include <string>

#include "framework/ir/program.h"

namespace mica {

// An encoding of all that decides how `program` runs, the same in every process
// and on every machine: two Programs have the same bytes if, and only if, they
// have the same
// - inputs and variables: how many, in order, of which types, strides as given;
// - constants, bit for bit;
// - ops in order: operator (an opaque one by its schema), arguments (floats by
//   their bits), types of results, bodies;
// - updates and returns, in order.
// Labels don't count: the Program's name, the names of values and variables,
// the user's files and lines, unused declarations of opaque operators. Who
// shares something by content must take labels from the Program at hand.
std::string ContentOf(const Program& program);

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_CONTENT_H_
