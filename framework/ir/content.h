// What a Program computes, as bytes: equal for Programs that are equal but for
// their labels.

#ifndef MICA_FRAMEWORK_IR_CONTENT_H_
#define MICA_FRAMEWORK_IR_CONTENT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/base/large_vector.h"
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
// the user's files and lines, arguments that no kernel reads
// (OpDef::label_param()), unused declarations of opaque operators. Who
// shares something by content must take labels from the Program at hand.
LargeString ContentOf(const Program& program);

// What an open size is: those of one kind are told to be equal or not.
enum class SizeKind : uint8_t {
  kDim,     // Of a type, or of a list of sizes among the arguments.
  kStride,  // Of a type.
  kNumber,  // An argument by itself: an index, an offset, a count.
};
struct OpenSize {
  SizeKind kind = SizeKind::kDim;
  int64_t value = 0;
  friend bool operator==(const OpenSize&, const OpenSize&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const OpenSize& size) {
    return H::combine(std::move(h), size.kind, size.value);
  }
};

// The same with sizes left open: of a dim, a stride or a size among the
// arguments (SymInt, in ATen's words) that is 2 or more it says only which
// others of its kind are equal to it; of strides also whether they are dense.
// Constants with dims are of any bytes. Bodies are part of it: their sizes are
// told to be equal, or not, to those around them and to each other's. Static
// Programs of equal structure differ in sizes, and in what such constants hold,
// alone: as many sizes, in the order of their first occurrence, in `sizes`.
struct ProgramStructure {
  LargeString bytes;
  std::vector<OpenSize> sizes;
};
ProgramStructure StructureOf(const Program& program);

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_CONTENT_H_
