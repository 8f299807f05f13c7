#include "tests/property/plan_checker.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/resolve.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// Whose bytes: a value's, by its id, or one of these.
using Owner = int64_t;
constexpr Owner kScratch = -1;
Owner SavedBy(int64_t update) { return -1000 - update; }
Owner NewContent(ValueId target) { return -1'000'000 - target; }
constexpr Owner kOutputs =
    -1'000'000'000;  // Copies to outputs: from there down.

// Bytes of one address space.
struct Range {
  Home home = Home::kNone;
  int32_t index = 0;
  int64_t begin = 0;
  int64_t end = 0;

  bool Overlaps(const Range& other) const {
    return home == other.home && index == other.index && begin < other.end &&
           other.begin < end;
  }
};

Range RangeAt(const Location& location, int64_t bytes) {
  return {.home = location.home,
          .index = location.index,
          .begin = location.offset,
          .end = location.offset + bytes};
}

// The owner of every byte that has one.
class Ownership {
 public:
  void Write(const Range& range, Owner owner) {
    if (range.begin == range.end) return;
    std::vector<Piece>& pieces = spaces_[{range.home, range.index}];
    std::vector<Piece> kept;
    for (const Piece& piece : pieces) {
      if (piece.begin < range.begin) {
        kept.push_back(
            {piece.begin, std::min(piece.end, range.begin), piece.owner});
      }
      if (piece.end > range.end) {
        kept.push_back(
            {std::max(piece.begin, range.end), piece.end, piece.owner});
      }
    }
    kept.push_back({range.begin, range.end, owner});
    pieces = std::move(kept);
  }

  bool IsOwned(const Range& range, Owner owner) const {
    const auto it = spaces_.find({range.home, range.index});
    int64_t owned = 0;
    if (it != spaces_.end()) {
      for (const Piece& piece : it->second) {
        if (piece.owner != owner) continue;
        owned += std::max<int64_t>(0, std::min(piece.end, range.end) -
                                          std::max(piece.begin, range.begin));
      }
    }
    return owned == range.end - range.begin;
  }

 private:
  struct Piece {
    int64_t begin;
    int64_t end;
    Owner owner;
  };
  std::map<std::pair<Home, int32_t>, std::vector<Piece>> spaces_;
};

// The Program, or a function as one call of it sees it: values of each call
// are others.
struct Frame {
  const Program* program = nullptr;
  LargeVector<Resolved> resolved;
  Owner first_owner = 0;  // Of its value 0.
  // Of a function: the frame and the op of the call.
  int caller = 0;
  const Op* call = nullptr;
};

class MemoryChecker {
 public:
  explicit MemoryChecker(const Plan& plan)
      : plan_(plan), program_(plan.program()) {}

  absl::Status Check() {
    MICA_RETURN_IF_ERROR(AddFrames());
    OwnExternals();
    for (const Step& step : plan_.folds()) {
      const absl::Status status = CheckOp(
          step, plan_.fold_args().subspan(step.first_arg, step.num_args));
      if (!status.ok()) {
        return Annotate(status, absl::StrCat("fold ", step.name));
      }
    }
    for (size_t i = 0; i < plan_.steps().size(); ++i) {
      const Step& step = plan_.steps()[i];
      const absl::Status status =
          step.op >= 0 ? CheckOp(step, plan_.args().subspan(step.first_arg,
                                                            step.num_args))
                       : CheckCopy(step);
      if (!status.ok()) {
        return Annotate(status, absl::StrCat("step ", i, ", ", step.name));
      }
    }
    return CheckEnd();
  }

 private:
  absl::Status AddFrames() {
    MICA_RETURN_IF_ERROR(AddFrame({.program = &program_}));
    for (const CallSite& site : plan_.calls()) {
      const int caller = site.caller + 1;
      MICA_RETURN_IF_ERROR(
          AddFrame({.program = site.function,
                    .caller = caller,
                    .call = &frames_[caller].program->ops()[site.op]}));
    }
    return absl::OkStatus();
  }

  absl::Status AddFrame(Frame frame) {
    MICA_ASSIGN_OR_RETURN(
        frame.resolved,
        ResolveViews(*frame.program, FindReads(*frame.program).views));
    frame.first_owner = num_owners_;
    num_owners_ += frame.program->num_values();
    frames_.push_back(std::move(frame));
    return absl::OkStatus();
  }

  int FrameOf(const Step& step) const { return step.call + 1; }

  // Whose bytes a value of a frame reads: of what a call hands in or returns,
  // the value that was computed. An input's view is one of the operand.
  Owner OwnerOf(int f, ValueId id) const {
    const Frame& frame = frames_[f];
    const ValueId base = frame.resolved[id].base;
    const Value& value = frame.program->value(base);
    if (value.kind == ValueKind::kInput && frame.call != nullptr) {
      return OwnerOf(frame.caller, BodyOperands(*frame.call)[value.index]);
    }
    const Owner own = frame.first_owner + base;
    if (value.kind != ValueKind::kResult || is_copied_.contains(own)) {
      return own;
    }
    for (size_t g = 1; g < frames_.size(); ++g) {
      if (frames_[g].caller != f ||
          frames_[g].call != &frame.program->ops()[value.index]) {
        continue;
      }
      return OwnerOf(static_cast<int>(g),
                     frames_[g].program->outputs()[value.result]);
    }
    return own;
  }

  const TensorType& type(ValueId id) const { return program_.type(id); }
  const Location& arg(const Step& step, int index) const {
    return plan_.args()[step.first_arg + index];
  }
  std::string Name(ValueId id) const { return program_.value(id).name; }

  void OwnExternals() {
    auto own = [this](Home home, size_t index, ValueId id) {
      owners_.Write({.home = home,
                     .index = static_cast<int32_t>(index),
                     .end = type(id).extent_bytes()},
                    id);
    };
    for (size_t i = 0; i < program_.inputs().size(); ++i) {
      own(Home::kInput, i, program_.inputs()[i]);
    }
    for (size_t i = 0; i < program_.variables().size(); ++i) {
      own(Home::kVariable, i, program_.variables()[i].value);
    }
    for (size_t i = 0; i < program_.constants().size(); ++i) {
      own(Home::kConstant, i, program_.constants()[i].value);
    }
  }

  // An output's memory is scratch until it is written.
  absl::Status CheckBounds(const Range& range) const {
    int64_t bytes = range.end;
    if (range.home == Home::kArena) bytes = plan_.arena_bytes();
    if (range.home == Home::kOutput) {
      bytes = plan_.output_type(range.index).extent_bytes();
    }
    if (range.begin >= 0 && range.end <= bytes) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("bytes ", range.begin, " to ",
                                            range.end, " of only ", bytes));
  }

  absl::Status CheckRead(const Range& range, absl::string_view value,
                         Owner owner) const {
    if (owners_.IsOwned(range, owner)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("reads %", value, " where it is not"));
  }

  // A function's constants are the Plan's, once for all calls.
  absl::Status CheckConstant(const Frame& frame, ValueId id,
                             const Location& location) const {
    const Value& value = frame.program->value(frame.resolved[id].base);
    if (value.kind != ValueKind::kConstant) {
      return absl::InternalError("reads a constant for what is none");
    }
    const Constant& constant = frame.program->constants()[value.index];
    if (std::equal(
            constant.bytes.begin(), constant.bytes.end(),
            static_cast<const uint8_t*>(plan_.constant(location.index)))) {
      return absl::OkStatus();
    }
    return absl::InternalError("reads another constant");
  }

  absl::Status CheckOp(const Step& step, absl::Span<const Location> args) {
    const int f = FrameOf(step);
    const Frame& frame = frames_[f];
    const Op& op = *plan_.op(step);
    const Prepared& prepared = *step.prepared;
    std::vector<Range> reads;
    absl::Status status;
    ForEachValue(op.arguments, [&](ValueId id) {
      const Location& location = args[reads.size()];
      reads.push_back(
          RangeAt(location, frame.program->type(id).extent_bytes()));
      if (!status.ok() || location.home == Home::kPacked) return;
      if (location.home == Home::kConstant && f > 0 &&
          frame.program->value(frame.resolved[id].base).kind !=
              ValueKind::kInput) {
        status = CheckConstant(frame, id, location);
        return;
      }
      status = CheckRead(reads.back(), frame.program->value(id).name,
                         OwnerOf(f, id));
    });
    MICA_RETURN_IF_ERROR(status);
    std::vector<Range> writes;
    // Behind what bodies read packed.
    const size_t first_result =
        std::max(reads.size(), static_cast<size_t>(step.num_operands));
    for (size_t i = 0; i < op.results.size(); ++i) {
      const Location& location = args[first_result + i];
      if (location.home == Home::kNone) continue;
      const Range range =
          RangeAt(location, frame.program->type(op.results[i]).extent_bytes());
      MICA_RETURN_IF_ERROR(
          CheckWrite(range, reads, InplaceOf(prepared, i),
                     i == 0 ? prepared.overlapping_operands : 0));
      MICA_RETURN_IF_ERROR(CheckDisjoint(range, writes));
      writes.push_back(range);
      MICA_ASSIGN_OR_RETURN(const Owner owner,
                            WriterOf(step, location, op.results[i]));
      owners_.Write(range, owner);
    }
    if (prepared.scratch_bytes == 0) return absl::OkStatus();
    const Range scratch = RangeAt(args.back(), prepared.scratch_bytes);
    MICA_RETURN_IF_ERROR(CheckWrite(scratch, reads, /*inplace_operands=*/0,
                                    /*overlapping_operands=*/0));
    MICA_RETURN_IF_ERROR(CheckDisjoint(scratch, writes));
    owners_.Write(scratch, kScratch);
    return absl::OkStatus();
  }

  static uint32_t InplaceOf(const Prepared& prepared, size_t result) {
    if (result == 0) return prepared.inplace_operands;
    return result <= prepared.more_inplace.size()
               ? prepared.more_inplace[result - 1]
               : 0;
  }

  // A result in an input or a variable is what an update says of it, and comes
  // when nothing can fail any more.
  absl::StatusOr<Owner> WriterOf(const Step& step, const Location& location,
                                 ValueId result) const {
    const int f = FrameOf(step);
    if (location.home != Home::kInput && location.home != Home::kVariable) {
      return frames_[f].first_owner + result;
    }
    const bool is_late = &step - plan_.steps().data() >= plan_.num_compute() &&
                         step.prepared->never_fails;
    for (const Update& update : program_.updates()) {
      const Value& target = program_.value(update.target);
      const Home home =
          target.kind == ValueKind::kInput ? Home::kInput : Home::kVariable;
      if (is_late &&
          OwnerOf(0, update.value) == frames_[f].first_owner + result &&
          location.home == home && location.index == target.index &&
          location.offset == 0) {
        return NewContent(update.target);
      }
    }
    return absl::InternalError(
        absl::StrCat("writes ", Name(result), " to what it doesn't update"));
  }

  // A write over an operand's bytes must be over all of them, in place, and
  // the kernel must allow it; or over another's, too, if it allows that.
  absl::Status CheckWrite(const Range& range, const std::vector<Range>& reads,
                          uint32_t inplace_operands,
                          uint32_t overlapping_operands) const {
    const auto is_set = [](uint32_t operands, size_t i) {
      return i < 32 && (operands >> i & 1) != 0;
    };
    MICA_RETURN_IF_ERROR(CheckBounds(range));
    for (size_t i = 0; i < reads.size(); ++i) {
      if (!range.Overlaps(reads[i])) continue;
      const bool is_inplace = is_set(inplace_operands, i) &&
                              range.begin == reads[i].begin &&
                              range.end == reads[i].end;
      const bool is_part = is_set(overlapping_operands, i) &&
                           range.begin <= reads[i].begin &&
                           reads[i].end <= range.end;
      if (is_inplace || is_part) continue;
      return absl::InternalError(
          absl::StrCat("writes over its operand ", i, " while it reads it"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDisjoint(const Range& range,
                             const std::vector<Range>& others) const {
    for (const Range& other : others) {
      if (range.Overlaps(other)) {
        return absl::InternalError("two results or scratch overlap");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckCopy(const Step& step) {
    const Location& from = arg(step, 0);
    const Location& to = arg(step, 1);
    absl::string_view name = step.name;
    int64_t output = 0;
    if (absl::ConsumePrefix(&name, "copy output ") &&
        absl::SimpleAtoi(name, &output)) {
      return CheckOutputCopy(FrameOf(step), output, from, to);
    }
    int64_t saved = 0;
    if (absl::ConsumePrefix(&name, "save update ") &&
        absl::SimpleAtoi(name, &saved)) {
      const ValueId id = program_.updates()[saved].value;
      is_saved_.insert({static_cast<int>(saved), to});
      return CheckCopyOf(from, to, Name(id), OwnerOf(0, id), type(id),
                         SavedBy(saved), type(id).num_bytes());
    }
    return CheckUpdate(from, to);
  }

  // Of a function's: into what the call returns.
  absl::Status CheckOutputCopy(int f, int64_t output, const Location& from,
                               const Location& to) {
    const Frame& frame = frames_[f];
    const ValueId id = frame.program->outputs()[output];
    TensorType to_type = frame.program->type(id);
    if (!to_type.is_dense()) to_type.strides.clear();
    Owner owner = kOutputs - output;
    if (frame.call != nullptr) {
      owner = frames_[frame.caller].first_owner + frame.call->results[output];
    }
    MICA_RETURN_IF_ERROR(CheckCopyOf(from, to, frame.program->value(id).name,
                                     OwnerOf(f, id), frame.program->type(id),
                                     owner, to_type.extent_bytes()));
    is_copied_.insert(owner);
    return absl::OkStatus();
  }

  absl::Status CheckUpdate(const Location& from, const Location& to) {
    for (size_t i = 0; i < program_.updates().size(); ++i) {
      const Update& update = program_.updates()[i];
      const Value& target = program_.value(update.target);
      const Home home =
          target.kind == ValueKind::kInput ? Home::kInput : Home::kVariable;
      if (to.home != home || to.index != target.index) continue;
      const ValueId id = update.value;
      const auto saved = is_saved_.find(static_cast<int>(i));
      TensorType from_type = type(id);
      if (saved != is_saved_.end()) from_type.strides.clear();
      return CheckCopyOf(from, to, Name(id),
                         saved == is_saved_.end() ? OwnerOf(0, id) : SavedBy(i),
                         from_type, NewContent(update.target),
                         type(update.target).extent_bytes());
    }
    return absl::InternalError("writes to what no update names");
  }

  absl::Status CheckCopyOf(const Location& from, const Location& to,
                           absl::string_view value, Owner owner,
                           const TensorType& from_type, Owner new_owner,
                           int64_t to_bytes) {
    const Range read = RangeAt(from, from_type.extent_bytes());
    const Range write = RangeAt(to, to_bytes);
    MICA_RETURN_IF_ERROR(CheckRead(read, value, owner));
    MICA_RETURN_IF_ERROR(CheckWrite(write, {read}, /*inplace_operands=*/0,
                                    /*overlapping_operands=*/0));
    owners_.Write(write, new_owner);
    return absl::OkStatus();
  }

  absl::Status CheckEnd() const {
    for (size_t i = 0; i < program_.outputs().size(); ++i) {
      const ValueId id = program_.outputs()[i];
      const Range range = {
          .home = Home::kOutput,
          .index = static_cast<int32_t>(i),
          .end = plan_.output_type(static_cast<int>(i)).extent_bytes()};
      const Owner copy = kOutputs - static_cast<Owner>(i);
      const Owner owner = is_copied_.contains(copy) ? copy : OwnerOf(0, id);
      MICA_RETURN_IF_ERROR(Annotate(CheckRead(range, Name(id), owner),
                                    absl::StrCat("output ", i)));
    }
    for (const Update& update : program_.updates()) {
      if (update.value == update.target) continue;
      const Value& target = program_.value(update.target);
      const Range range = {.home = target.kind == ValueKind::kInput
                                       ? Home::kInput
                                       : Home::kVariable,
                           .index = target.index,
                           .end = target.type->extent_bytes()};
      MICA_RETURN_IF_ERROR(Annotate(
          CheckRead(range, Name(update.value), NewContent(update.target)),
          absl::StrCat("update of ", Name(update.target))));
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const Program& program_;
  std::vector<Frame> frames_;  // The Program's, then those of Plan::calls().
  Owner num_owners_ = 0;
  std::set<Owner>
      is_copied_;  // Results of calls, and outputs, that are copies.
  Ownership owners_;
  std::map<int, Location> is_saved_;
};

}  // namespace

absl::Status CheckMemory(const Plan& plan) {
  return MemoryChecker(plan).Check();
}

}  // namespace mica
