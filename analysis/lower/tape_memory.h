// Tensors of a tape that share memory, as values in SSA form.

#ifndef MICA_ANALYSIS_LOWER_TAPE_MEMORY_H_
#define MICA_ANALYSIS_LOWER_TAPE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/lower/tape.h"
#include "framework/ir/program_builder.h"

namespace mica {

// Adds an op with one result of `type`.
absl::StatusOr<ValueId> AddOneResult(ProgramBuilder& builder,
                                     absl::string_view op, Arguments arguments,
                                     TensorType type, const SourceLine& source);

// Which value stands for each tensor's elements, from write to write: a
// storage has one value, typed as the tensor that it is rooted in; another
// tensor over it is a view of that value, and a write through such a view a new
// value of the whole storage. Where several inputs and states lie in one
// storage and nothing writes it, each of them, with its views, is taken for a
// storage by itself: they may reach beyond each other. It adds the ops that
// this takes. Values are what memory holds: a tensor's lazy bits are its
// reader's to apply.
//
// Errors are Unimplemented: for what a Program can't say of memory.
class TapeMemory {
 public:
  // Memory that tensors share.
  struct Storage {
    TapeTensorId root = kNoTapeTensor;  // The tensor that `value` is typed as.
    ValueId value = kNoValue;           // What stands for its contents now.
    int version = 0;                    // Counts the writes.
  };

  // Both must outlive it.
  TapeMemory(const Tape& tape, ProgramBuilder& builder)
      : tape_(tape),
        builder_(builder),
        memories_(MemoriesOf(tape)),
        tensors_(tape.tensors.size()) {}

  // Whose ops those are that it adds from here on.
  void set_source(SourceLine source) { source_ = std::move(source); }
  const SourceLine& source() const { return source_; }

  // An input or a state.
  void DeclareExternal(TapeTensorId id, ValueId value);
  // `value` is a tensor in memory of its own.
  absl::Status SetFresh(TapeTensorId id, ValueId value);
  // The elements of `id` become those of `value`, of the same dtype and dims.
  absl::Status Write(TapeTensorId id, ValueId value);
  // `value` is a view with the elements that `id` has now.
  void SetView(TapeTensorId id, ValueId value) {
    tensors_[id] = {.value = value, .version = storage(id).version};
  }
  // How a tensor's place in its memory goes by a number of the run: by so many
  // elements for each by which that isn't the recorded one.
  struct Move {
    int32_t number = -1;  // In Tape::host_values.
    int64_t stride = 0;
    // Of the dim, where the number is an index: from the end on if negative.
    int64_t size = 0;
  };
  void SetMoves(TapeTensorId id, std::vector<Move> moves) {
    moves_[id] = std::move(moves);
  }
  // Those of what it is an alias of, if it is one. None for most.
  const std::vector<Move>& MovesOf(TapeTensorId id) const;
  // How far a move goes, in elements; computed once.
  absl::StatusOr<Argument> DistanceOf(const Move& move);
  // Where a tensor that moves begins in its root, in elements.
  absl::StatusOr<Argument> MovedOffset(TapeTensorId id);
  // Gives the value of a number.
  using NumberFn = std::function<absl::StatusOr<Argument>(int32_t number)>;
  void set_numbers(NumberFn numbers) { numbers_ = std::move(numbers); }
  // Has values of tensors that move lie as eager's tensors do, gaps included.
  void KeepGaps() { keeps_gaps_ = true; }

  // Makes what was written to inputs and states updates of the Program.
  absl::Status AddUpdates();

  // Whether anything has made the tensor's memory.
  bool IsKnown(TapeTensorId id) const {
    return storages_.contains(memories_[id]);
  }
  // The value that the tensor's elements have now. Internal if it isn't known.
  absl::StatusOr<ValueId> Current(TapeTensorId id);
  // Requires a known one.
  const Storage& storage(TapeTensorId id) const {
    return storages_.at(memories_[id]);
  }
  absl::Status CheckInsideRoot(TapeTensorId id) const;
  // In elements, of the real dtype if just one of the two is complex; negative
  // for a tensor that starts before its root. Requires known dtypes.
  int64_t OffsetInRoot(TapeTensorId id) const;
  bool IsExternal(TapeTensorId id) const {
    return tape_.tensors[id].origin == TapeOrigin::kInput ||
           tape_.tensors[id].origin == TapeOrigin::kState;
  }
  absl::StatusOr<TensorType> TypeOf(TapeTensorId id) const;
  // The type that a value must have to take a tensor's place in Write().
  absl::StatusOr<TensorType> WriteType(TapeTensorId id) const;

 private:
  // The value of a tensor's elements, valid for one version of its storage.
  struct TensorValue {
    ValueId value = kNoValue;
    int version = -1;
  };

  // The number of each tensor's memory: of its storage, but for those parts.
  static std::vector<int32_t> MemoriesOf(const Tape& tape);

  // What Python's numbers give, a number again.
  absl::StatusOr<Argument> AddNumber(absl::string_view op, Argument a,
                                     Argument b);
  absl::StatusOr<ValueId> ViewOfRoot(TapeTensorId id);
  absl::StatusOr<ValueId> MovedView(TapeTensorId id, TensorType type);
  absl::Status WriteParts(TapeTensorId id, ValueId value);
  absl::StatusOr<ValueId> AddOneResult(absl::string_view op,
                                       Arguments arguments, TensorType type) {
    return mica::AddOneResult(builder_, op, std::move(arguments),
                              std::move(type), source_);
  }

  const Tape& tape_;
  ProgramBuilder& builder_;
  SourceLine source_;
  const std::vector<int32_t> memories_;  // By tensor.
  std::vector<TensorValue> tensors_;
  std::map<int32_t, Storage> storages_;  // By memory.
  std::map<TapeTensorId, std::vector<Move>> moves_;
  std::map<std::tuple<int32_t, int64_t, int64_t>, Argument> distances_;
  NumberFn numbers_;
  bool keeps_gaps_ = false;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_TAPE_MEMORY_H_
