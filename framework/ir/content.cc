#include "framework/ir/content.h"

#include <complex>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "framework/base/large_vector.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/fetch_ahead.h"
#include "framework/op/schema.h"

namespace mica {
namespace {

// Before each argument, so that its kind counts.
enum class Tag : uint8_t {
  kNone,
  kValue,
  kValues,
  kInt,
  kFloat,
  kFalse,
  kTrue,
  kDType,
  kString,
  kInts,
  kFloats,
  kBools,
  kComplex,
};

char* PutByte(char* at, uint8_t byte) {
  *at = static_cast<char>(byte);
  return at + 1;
}

// Seven bits a byte: small numbers, which nearly all are, take one.
char* PutCount(char* at, uint64_t value) {
  while (value >= 0x80) {
    at = PutByte(at, static_cast<uint8_t>(value | 0x80));
    value >>= 7;
  }
  return PutByte(at, static_cast<uint8_t>(value));
}

// Small numbers of either sign are short.
char* PutInt(char* at, int64_t value) {
  return PutCount(at, static_cast<uint64_t>(value) << 1 ^
                          static_cast<uint64_t>(value >> 63));
}

char* PutDouble(char* at, double value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

// The open sizes of a Program and of the bodies in it, numbered as they come.
class OpenSizes {
 public:
  int64_t NumberOf(const OpenSize& size) {
    const auto [it, is_new] =
        numbers_.try_emplace(size, static_cast<int64_t>(sizes_.size()));
    if (is_new) sizes_.push_back(size);
    return it->second;
  }
  std::vector<OpenSize> list() && { return std::move(sizes_); }

 private:
  absl::flat_hash_map<OpenSize, int64_t> numbers_;
  std::vector<OpenSize> sizes_;
};

// The functions of a Program, numbered as they come.
using Functions = absl::flat_hash_map<const Program*, size_t>;

// Every part is written with its length or kind before it: no two Programs
// that differ run into the same bytes.
//
// The cursor is passed from hand to hand, so that it stays in a register: it is
// of the type that may alias all else. Who writes a part of any length asks for
// room first; what is left of it is enough for one number after that.
//
// With open sizes it writes a structure, and adds them to `sizes`; without, it
// needs none.
template <bool kOpenSizes>
class Encoder {
 public:
  // `functions` gets the number of each that is called.
  Encoder(const Program& program, OpenSizes* sizes, Functions* functions)
      : program_(program),
        numbers_(program.num_values(), -1),
        sizes_(sizes),
        functions_(functions) {}

  LargeString Encode() {
    char* at = Room(nullptr, kUsualOp * program_.ops().size());
    at = PutExternals(at);
    at = PutCount(at, program_.ops().size());
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      FetchAhead(program_.ops(), i);
      at = PutOp(at, program_.ops()[i]);
    }
    at = Room(at, 2 * kNumber * program_.updates().size());
    at = PutCount(at, program_.updates().size());
    for (const Update& update : program_.updates()) {
      at = PutValue(PutValue(at, update.target), update.value);
    }
    at = Room(at, kNumber * program_.outputs().size());
    at = PutCount(at, program_.outputs().size());
    for (ValueId id : program_.outputs()) at = PutValue(at, id);
    std::vector<Dim> symbols(symbols_.size());
    for (const auto& [symbol, number] : symbols_) symbols[number] = symbol;
    for (Dim symbol : symbols) at = PutText(at, DimToString(symbol));
    return LargeString(bytes_.get(), at - bytes_.get());
  }

 private:
  // The most that a number or a dim takes, and room that is left for several.
  static constexpr size_t kNumber = 10;
  static constexpr size_t kDim = 2 * kNumber;
  static constexpr size_t kSlack = 64;
  static constexpr size_t kUsualOp = 32;  // Bytes of one.

  struct Deleter {
    size_t capacity = 0;
    void operator()(char* bytes) const {
      LargeAllocator<char>().deallocate(bytes, capacity);
    }
  };

  // Where `at` is once there is room for `bytes` and some numbers after it.
  char* Room(char* at, size_t bytes) {
    const size_t used = at == nullptr ? 0 : at - bytes_.get();
    const size_t capacity = bytes_.get_deleter().capacity;
    if (capacity - used < bytes + kSlack) {
      // Not a string or a vector: its room would be filled with 0 first.
      const size_t larger = 2 * capacity + bytes + kSlack;
      std::unique_ptr<char, Deleter> room(
          LargeAllocator<char>().allocate(larger), {.capacity = larger});
      if (used > 0) std::memcpy(room.get(), bytes_.get(), used);
      bytes_ = std::move(room);
    }
    return bytes_.get() + used;
  }

  char* PutExternals(char* at) {
    at = PutCount(at, program_.inputs().size());
    for (ValueId id : program_.inputs()) at = Define(at, id);
    at = PutCount(at, program_.variables().size());
    for (const Variable& variable : program_.variables()) {
      at = Define(at, variable.value);
    }
    at = PutCount(at, program_.constants().size());
    for (const Constant& constant : program_.constants()) {
      at = Define(at, constant.value);
      if (kOpenSizes && program_.type(constant.value).rank() > 0) continue;
      at = PutText(at, {reinterpret_cast<const char*>(constant.bytes.data()),
                        constant.bytes.size()});
    }
    return at;
  }

  char* PutOp(char* at, const Op& op) {
    at = PutDef(Room(at, 0), op.def);
    at = PutCount(at, op.arguments.size());
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      is_size_ = kOpenSizes && op.def->schema().params[i].is_size;
      at = Room(at, 0);
      if (static_cast<int>(i) == op.def->label_param()) continue;
      at = PutArgument(at, op.arguments[i]);
    }
    at = PutCount(at, op.results.size());
    for (ValueId id : op.results) at = Define(at, id);
    // As many as the operator has.
    for (const auto& body : op.bodies) at = PutBody(at, op, *body);
    return at;
  }

  // A function by a number; what that means follows where it is new.
  char* PutBody(char* at, const Op& op, const Program& body) {
    if (ControlKindOf(*op.def) == ControlKind::kCall) {
      const auto known = functions_->find(&body);
      at = PutInt(Room(at, 0), known == functions_->end()
                                   ? -1
                                   : static_cast<int64_t>(known->second));
      if (known != functions_->end()) return at;
      functions_->emplace(&body, functions_->size());
    }
    return PutText(at, Encoder(body, sizes_, functions_).Encode());
  }

  // By a number; what that means follows where it is new.
  char* PutDef(char* at, const OpDef* def) {
    const auto [it, is_new] = defs_.try_emplace(def, defs_.size());
    at = PutCount(at, it->second);
    if (!is_new) return at;
    at = PutByte(at, def->is_opaque() ? 1 : 0);
    return PutText(at, def->is_opaque() ? ToText(def->schema()) : def->name());
  }

  // From here on the value is known by its number.
  char* Define(char* at, ValueId id) {
    numbers_[id] = next_number_++;
    return PutType(Room(at, 0), program_.value(id).type);
  }
  // By a number; what that means follows where it is new. In a structure,
  // types are equal where their sizes have the same numbers.
  char* PutType(char* at, const TensorType* key) {
    const auto [it, is_new] = types_.try_emplace(key, types_.size());
    at = PutCount(at, it->second);
    if (!is_new) return at;
    const TensorType& type = *key;
    at = Room(at, kDim * (type.dims.size() + type.strides.size()));
    at = PutByte(at, static_cast<uint8_t>(type.dtype));
    const bool is_dense =
        kOpenSizes && !type.strides.empty() && type.is_dense();
    at = PutByte(at, (type.is_scalar ? 1 : 0) | (type.strides.empty() ? 0 : 2) |
                         (is_dense ? 4 : 0));
    at = PutCount(at, type.dims.size());
    is_size_ = kOpenSizes;
    for (Dim dim : type.dims) at = PutDim(at, dim);
    for (Dim stride : type.strides) {
      at = PutSize(at, SizeKind::kStride, stride);
    }
    return at;
  }
  char* PutValue(char* at, ValueId id) const {
    return PutInt(at, id == kNoValue ? -1 : numbers_[id]);
  }

  char* PutArgument(char* at, const Argument& argument) {
    if (const auto* ref = std::get_if<ValueRef>(&argument)) {
      return PutValue(PutTag(at, Tag::kValue), ref->id);
    }
    if (IsNone(argument)) return PutTag(at, Tag::kNone);
    if (const auto* value = std::get_if<int64_t>(&argument)) {
      return PutSize(PutTag(at, Tag::kInt), SizeKind::kNumber, *value);
    }
    return std::visit([&](const auto& value) { return PutOther(at, value); },
                      argument);
  }
  char* PutOther(char* at, std::monostate) { return at; }
  char* PutOther(char* at, ValueRef) { return at; }
  char* PutOther(char* at, int64_t) { return at; }
  char* PutOther(char* at, double value) {
    return PutDouble(PutTag(at, Tag::kFloat), value);
  }
  char* PutOther(char* at, std::complex<double> value) {
    at = PutDouble(PutTag(at, Tag::kComplex), value.real());
    return PutDouble(at, value.imag());
  }
  char* PutOther(char* at, bool value) {
    return PutTag(at, value ? Tag::kTrue : Tag::kFalse);
  }
  char* PutOther(char* at, DType value) {
    return PutByte(PutTag(at, Tag::kDType), static_cast<uint8_t>(value));
  }
  char* PutOther(char* at, const std::string& value) {
    return PutText(PutTag(at, Tag::kString), value);
  }
  char* PutOther(char* at, const ValueRefs& refs) {
    at = PutList(at, Tag::kValues, refs.size());
    for (ValueRef ref : refs) at = PutValue(at, ref.id);
    return at;
  }
  char* PutOther(char* at, const std::vector<int64_t>& values) {
    at = PutList(at, Tag::kInts, values.size());
    for (int64_t value : values) at = PutDim(at, value);
    return at;
  }
  char* PutOther(char* at, const std::vector<double>& values) {
    at = PutList(at, Tag::kFloats, values.size());
    for (double value : values) at = PutDouble(at, value);
    return at;
  }
  char* PutOther(char* at, const std::vector<bool>& values) {
    at = PutList(at, Tag::kBools, values.size());
    for (bool value : values) at = PutByte(at, value);
    return at;
  }

  static char* PutTag(char* at, Tag tag) {
    return PutByte(at, static_cast<uint8_t>(tag));
  }
  char* PutList(char* at, Tag tag, size_t size) {
    return PutCount(PutTag(Room(at, kDim * size), tag), size);
  }
  // A number, or which of the open sizes it is: those are from 2 on too.
  char* PutSize(char* at, SizeKind kind, int64_t value) {
    if (IsSymbol(value)) return PutSymbol(Room(at, kDim), value);
    if (!is_size_ || value < 2) return PutInt(at, value);
    return PutInt(at, 2 + sizes_->NumberOf({kind, value}));
  }
  char* PutDim(char* at, Dim dim) { return PutSize(at, SizeKind::kDim, dim); }
  // A symbol's number belongs to the process; its name, at the end, doesn't.
  char* PutSymbol(char* at, Dim dim) {
    at = PutInt(at, std::numeric_limits<int64_t>::min());
    return PutCount(at,
                    symbols_.try_emplace(dim, symbols_.size()).first->second);
  }
  char* PutText(char* at, absl::string_view text) {
    at = PutCount(Room(at, text.size()), text.size());
    if (!text.empty()) std::memcpy(at, text.data(), text.size());
    // The slack before the text may be used up.
    return Room(at + text.size(), 0);
  }

  const Program& program_;
  LargeVector<int32_t> numbers_;  // By value, in order of definition.
  int32_t next_number_ = 0;
  absl::flat_hash_map<const OpDef*, size_t> defs_;
  absl::flat_hash_map<const TensorType*, size_t> types_;
  absl::flat_hash_map<Dim, size_t> symbols_;
  bool is_size_ = false;  // What is written now is an open size.
  OpenSizes* const sizes_;
  Functions* const functions_;
  std::unique_ptr<char, Deleter> bytes_;
};

}  // namespace

LargeString ContentOf(const Program& program) {
  Functions functions;
  return Encoder</*kOpenSizes=*/false>(program, nullptr, &functions).Encode();
}

ProgramStructure StructureOf(const Program& program) {
  OpenSizes sizes;
  Functions functions;
  LargeString bytes =
      Encoder</*kOpenSizes=*/true>(program, &sizes, &functions).Encode();
  return {.bytes = std::move(bytes), .sizes = std::move(sizes).list()};
}

}  // namespace mica
