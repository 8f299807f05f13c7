// An operator's signature in the notation that ATen's own schemas use.

#ifndef MICA_FRAMEWORK_OP_SCHEMA_H_
#define MICA_FRAMEWORK_OP_SCHEMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/ir/argument.h"

namespace mica {

// What a parameter takes. Layout, memory format and generator arrive as
// integers or None, a device as a string.
enum class ParamKind : uint8_t {
  kTensor,
  kTensorList,
  kScalar,  // A number, or a host scalar value.
  kInt,
  kIntList,
  kFloat,
  kFloatList,
  kBool,
  kBoolList,
  kString,
  kDType,
  kOpaque,  // Generator, Storage, …: only None is legal.
};

// One parameter of a Schema.
struct Param {
  std::string name;
  ParamKind kind = ParamKind::kTensor;
  bool is_optional = false;            // "Tensor?": None is legal.
  bool has_optional_elements = false;  // "Tensor?[]".
  bool has_default = false;
  Argument default_value;
  std::string alias_set;    // "a" in "Tensor(a!)"; empty without one.
  bool is_mutated = false;  // The "!" in it.
  // "SymInt": a size, an offset or the like, rather than an axis or a mode.
  bool is_size = false;
  friend bool operator==(const Param&, const Param&) = default;
};

// One result of a Schema.
struct Result {
  std::string name;  // May be empty.
  ParamKind kind = ParamKind::kTensor;
  std::string alias_set;
  bool is_mutated = false;
  friend bool operator==(const Result&, const Result&) = default;
};

// "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
struct Schema {
  std::string op;  // In our spelling: "aten.add.Tensor".
  std::vector<Param> params;
  std::vector<Result> results;
  friend bool operator==(const Schema&, const Schema&) = default;
};

// Reads ATen's notation. InvalidArgument, naming the place, for anything else.
absl::StatusOr<Schema> ParseSchema(absl::string_view text);

// The schema in that notation; ParseSchema reads it back to an equal one.
std::string ToText(const Schema& schema);

// "aten::add.Tensor" and "aten::mm" as "aten.add.Tensor" and "aten.mm";
// a ".default" at the end is dropped.
std::string OpNameFromAten(absl::string_view aten_name);

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_SCHEMA_H_
