#include "analysis/sizes/rounds.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// What lies beside a loop takes of so many last rounds, and first ones.
constexpr int32_t kMostBeside = 3;

// Tensors in the order in which a call names them.
std::vector<TapeTensorId> TensorsOfCall(const TapeCall& call) {
  std::vector<TapeTensorId> ids;
  for (const auto* values : {&call.args, &call.outputs}) {
    for (const TapeValue& value : *values) {
      ForEachTensor(value, [&](TapeTensorId id) { ids.push_back(id); });
    }
  }
  return ids;
}

absl::Status Unfollowed(const TapeCall& call) {
  return absl::FailedPreconditionError(absl::StrCat(
      call.op, ": the rounds of a loop aren't alike", LineOf(call)));
}

}  // namespace

absl::flat_hash_map<int32_t, TapeTensorId> OwnersOf(const Tape& tape) {
  absl::flat_hash_map<int32_t, TapeTensorId> owners;
  for (size_t t = 0; t < tape.tensors.size(); ++t) {
    owners.try_emplace(tape.tensors[t].storage, static_cast<TapeTensorId>(t));
  }
  return owners;
}

Rounds::Rounds(const Tape& tape, std::vector<RoundBegins> loops,
               std::vector<int32_t> likes)
    : loops_(std::move(loops)),
      likes_(std::move(likes)),
      calls_(tape.calls.size()),
      tensors_(tape.tensors.size()),
      made_(loops_.size()),
      steps_(loops_.size()),
      distances_(loops_.size()) {
  for (int32_t loop = 0; loop < num_loops(); ++loop) {
    made_[loop].resize(count(loop));
    for (int32_t round = 0; round < count(loop); ++round) {
      for (int32_t call = loops_[loop][round]; call < loops_[loop][round + 1];
           ++call) {
        calls_[call] = {loop, round, call - loops_[loop][round]};
      }
    }
  }
  PlaceTensors(tape);
  for (int32_t loop = 0; loop < num_loops(); ++loop) FindSteps(tape, loop);
}

std::vector<int32_t> Rounds::counts() const {
  std::vector<int32_t> counts;
  for (int32_t loop = 0; loop < num_loops(); ++loop) {
    counts.push_back(count(loop));
  }
  return counts;
}

void Rounds::PlaceTensors(const Tape& tape) {
  std::vector<int32_t> first(tape.tensors.size(), -1);
  std::vector<bool> is_shared(tape.tensors.size());
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    const Place& here = calls_[i];
    for (const TapeTensorId id : TensorsOfCall(tape.calls[i])) {
      if (first[id] < 0) first[id] = static_cast<int32_t>(i);
      const Place& there = calls_[first[id]];
      is_shared[id] =
          is_shared[id] || here.loop != there.loop || here.round != there.round;
    }
  }
  for (size_t t = 0; t < tape.tensors.size(); ++t) {
    const TapeOrigin origin = tape.tensors[t].origin;
    const bool is_made = origin == TapeOrigin::kCall ||
                         origin == TapeOrigin::kAlias ||
                         (origin == TapeOrigin::kConstant && !is_shared[t]);
    if (!is_made || first[t] < 0 || calls_[first[t]].loop < 0) continue;
    const auto [loop, round, unused] = calls_[first[t]];
    std::vector<TapeTensorId>& made = made_[loop][round];
    tensors_[t] = {loop, round, static_cast<int32_t>(made.size())};
    made.push_back(static_cast<TapeTensorId>(t));
  }
}

TapeTensorId Rounds::At(const Place& place) const {
  if (place.round < 0 || place.round >= count(place.loop)) return kNoTapeTensor;
  const std::vector<TapeTensorId>& made = made_[place.loop][place.round];
  const bool is_there = place.position < static_cast<int32_t>(made.size());
  return is_there ? made[place.position] : kNoTapeTensor;
}

// What the last two rounds refer to in the same places.
void Rounds::FindSteps(const Tape& tape, int32_t loop) {
  const int32_t last = count(loop) - 1;
  if (last < 1) return;
  const int32_t length = loops_[loop][last + 1] - loops_[loop][last];
  if (loops_[loop][last] - loops_[loop][last - 1] != length) return;
  for (int32_t i = 0; i < length; ++i) {
    const auto ids = TensorsOfCall(tape.calls[loops_[loop][last] + i]);
    const auto before = TensorsOfCall(tape.calls[loops_[loop][last - 1] + i]);
    for (size_t k = 0; k < ids.size() && ids.size() == before.size(); ++k) {
      const TapeTensorId one = BaseOf(tape, ids[k]);
      const TapeTensorId other = BaseOf(tape, before[k]);
      const Place& place = tensors_[one];
      const Place& other_place = tensors_[other];
      if (place.loop != other_place.loop || place.loop == loop) continue;
      if (place.loop < 0) {
        FindItemStep(tape, loop, tape.tensors[one], tape.tensors[other]);
        continue;
      }
      const int step = place.round - other_place.round;
      if (place.position == other_place.position && (step == 1 || step == -1)) {
        steps_[loop][place.loop - num_loops()] = step;
        distances_[loop].insert({place.loop - num_loops(), place.round - last});
      }
    }
  }
}

// Whether these, of the last round and the one before, are results of a call
// that has one for each round.
void Rounds::FindItemStep(const Tape& tape, int32_t loop, const TapeTensor& one,
                          const TapeTensor& before) {
  const int step = one.item - before.item;
  if (one.call < 0 || one.call != before.call || one.output != before.output ||
      (step != 1 && step != -1)) {
    return;
  }
  const int32_t like = LikeOf(loop);
  const int32_t last = count(loop) - 1;
  const auto* items =
      std::get_if<TapeTensorList>(&tape.calls[one.call].outputs[one.output]);
  const int32_t of = like < 0 ? loop : like;
  if (items == nullptr || static_cast<int32_t>(items->ids.size()) != count(of))
    return;
  // It may take what rounds before it took, too.
  distances_[loop].insert({one.call, one.item - last});
  if (like < 0 && one.item != (step == 1 ? last : 0)) return;
  steps_[loop][one.call] = step;
  taken_.try_emplace(one.call, of);
}

int Rounds::StepOver(int32_t loop, int32_t call) const {
  const auto it = steps_[loop].find(call);
  return it == steps_[loop].end() ? 0 : it->second;
}

int Rounds::StepOverLoop(int32_t loop, int32_t earlier) const {
  return StepOver(loop, earlier - num_loops());
}

bool Rounds::TakesAt(int32_t loop, int32_t earlier, int32_t call,
                     int32_t distance) const {
  const int32_t of = earlier >= 0 ? earlier - num_loops() : call;
  return distances_[loop].contains({of, distance});
}

OtherRounds::OtherRounds(const Tape& tape, const Rounds& rounds,
                         std::vector<int32_t> counts)
    : old_(tape),
      rounds_(rounds),
      counts_(std::move(counts)),
      outside_(tape.tensors.size(), kNoTapeTensor),
      inside_(counts_.size()),
      first_call_(tape.calls.size(), -1),
      begins_(counts_.size()) {}

std::vector<RoundBegins> OtherRounds::loops() const { return begins_; }

absl::Status OtherRounds::Make() {
  MICA_RETURN_IF_ERROR(CheckWrites());
  MICA_RETURN_IF_ERROR(CheckLast());
  PlaceTensors();
  PlaceCalls();
  made_.name = old_.name;
  made_.inputs = old_.inputs;
  made_.states = old_.states;
  made_.results = old_.results;
  made_.mutated = old_.mutated;
  for (auto* ids :
       {&made_.inputs, &made_.states, &made_.results, &made_.mutated}) {
    for (TapeTensorId& id : *ids) {
      id = Find(id, kNoTapeTensor, {});
      if (id == kNoTapeTensor) {
        return absl::FailedPreconditionError(
            "what a loop leaves behind isn't known");
      }
    }
  }
  MICA_RETURN_IF_ERROR(MapNumbers());
  MICA_RETURN_IF_ERROR(MakeCalls());
  return MakeTensors();
}

// How often an argument is written is known of one number of rounds.
absl::Status OtherRounds::CheckWrites() const {
  std::vector<int32_t> storages;
  for (const TapeTensor& tensor : old_.tensors) {
    if (tensor.origin == TapeOrigin::kInput ||
        tensor.origin == TapeOrigin::kState) {
      storages.push_back(tensor.storage);
    }
  }
  for (size_t i = 0; i < old_.calls.size(); ++i) {
    if (rounds_.OfCall(static_cast<int32_t>(i)).loop < 0) continue;
    absl::Status status;
    ForEachWritten(old_.calls[i], [&](TapeTensorId id) {
      if (!absl::c_linear_search(storages, old_.tensors[id].storage)) return;
      status = absl::FailedPreconditionError(absl::StrCat(
          old_.calls[i].op, ": a loop writes what was there before the call",
          LineOf(old_.calls[i])));
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// What comes after a loop takes the last round's results, which has to make
// what the one did that was the last one.
absl::Status OtherRounds::CheckLast() const {
  for (int32_t loop = 0; loop < rounds_.num_loops(); ++loop) {
    const RoundBegins& begins = rounds_.begins(loop);
    const int32_t last = rounds_.count(loop) - 1, now = counts_[loop] - 1;
    if (now < 0) return absl::FailedPreconditionError("a loop has no round");
    if (now >= last) continue;
    bool is_alike = rounds_.TensorsOf(loop, now).size() ==
                    rounds_.TensorsOf(loop, last).size();
    const int32_t length = begins[last + 1] - begins[last];
    is_alike &= begins[now + 1] - begins[now] == length;
    for (int32_t i = 0; is_alike && i < length; ++i) {
      is_alike =
          old_.calls[begins[now] + i].op == old_.calls[begins[last] + i].op;
    }
    if (!is_alike) return Unfollowed(old_.calls[begins[last]]);
  }
  return absl::OkStatus();
}

void OtherRounds::AddTensor(TapeTensorId old, int32_t loop, int32_t round,
                            int32_t from) {
  const auto id = static_cast<TapeTensorId>(tensors_.size());
  tensors_.push_back({.old = old, .loop = loop, .round = round, .from = from});
  if (loop >= 0) {
    inside_[loop][round].push_back(id);
  } else if (outside_[old] == kNoTapeTensor) {
    outside_[old] = id;
  }
}

void OtherRounds::PlaceTensors() {
  for (size_t loop = 0; loop < counts_.size(); ++loop) {
    inside_[loop].resize(counts_[loop]);
  }
  for (size_t t = 0; t < old_.tensors.size(); ++t) {
    const auto id = static_cast<TapeTensorId>(t);
    const Rounds::Place place = rounds_.Of(id);
    if (const Axis axis = AxisOf(id); axis.call >= 0) {
      const int32_t length = NewLengthOf(axis);
      if (axis.index >= length) continue;
      std::vector<TapeTensorId>& items = items_[axis.call];
      items.push_back(static_cast<TapeTensorId>(tensors_.size()));
      AddTensor(id, -1, 0, 0);
      if (axis.index + 1 < LengthOf(axis)) continue;
      for (int32_t i = axis.index + 1; i < length; ++i) {
        items.push_back(static_cast<TapeTensorId>(tensors_.size()));
        AddTensor(id, -1, 0, 0);
      }
      continue;
    }
    if (place.loop < 0) {
      AddTensor(id, -1, 0, 0);
      continue;
    }
    const int32_t last = rounds_.count(place.loop) - 1;
    if (place.round < counts_[place.loop]) {
      AddTensor(id, place.loop, place.round, place.round);
    }
    const auto of_last = rounds_.TensorsOf(place.loop, last);
    if (of_last.empty() || id != of_last.back()) continue;
    for (int32_t round = last + 1; round < counts_[place.loop]; ++round) {
      for (const TapeTensorId one : of_last) {
        AddTensor(one, place.loop, round, last);
      }
    }
  }
}

void OtherRounds::PlaceCalls() {
  for (size_t i = 0; i < old_.calls.size(); ++i) {
    const auto call = static_cast<int32_t>(i);
    PlaceEmptyLoops(call);
    const Rounds::Place place = rounds_.OfCall(call);
    if (place.loop < 0) {
      first_call_[i] = static_cast<int32_t>(calls_.size());
      calls_.push_back({.old = call});
      continue;
    }
    // All rounds at the loop's first call.
    const RoundBegins& begins = rounds_.begins(place.loop);
    if (call != begins[0]) continue;
    for (int32_t round = 0; round < counts_[place.loop]; ++round) {
      const int32_t from = std::min(round, rounds_.count(place.loop) - 1);
      begins_[place.loop].push_back(static_cast<int32_t>(calls_.size()));
      for (int32_t old = begins[from]; old < begins[from + 1]; ++old) {
        calls_.push_back(
            {.old = old, .loop = place.loop, .round = round, .from = from});
      }
    }
    begins_[place.loop].push_back(static_cast<int32_t>(calls_.size()));
  }
  PlaceEmptyLoops(static_cast<int32_t>(old_.calls.size()));
}

void OtherRounds::PlaceEmptyLoops(int32_t call) {
  for (int32_t loop = 0; loop < rounds_.num_loops(); ++loop) {
    const RoundBegins& begins = rounds_.begins(loop);
    if (begins.front() != call || begins.back() != call) continue;
    begins_[loop].assign(counts_[loop] + 1,
                         static_cast<int32_t>(calls_.size()));
  }
}

OtherRounds::Axis OtherRounds::AxisOf(TapeTensorId id) const {
  const Rounds::Place place = rounds_.Of(id);
  if (place.loop >= 0) return {.loop = place.loop, .index = place.round};
  const TapeTensor& tensor = old_.tensors[id];
  if (tensor.origin != TapeOrigin::kCall || tensor.item < 0 ||
      !rounds_.taken().contains(tensor.call)) {
    return {};
  }
  return {.call = tensor.call, .index = tensor.item};
}

int32_t OtherRounds::LengthOf(const Axis& axis) const {
  return rounds_.count(axis.loop >= 0 ? axis.loop
                                      : rounds_.taken().at(axis.call));
}

int32_t OtherRounds::NewLengthOf(const Axis& axis) const {
  return counts_[axis.loop >= 0 ? axis.loop : rounds_.taken().at(axis.call)];
}

// `like`: of the old tensor at the axis's own index.
TapeTensorId OtherRounds::OnAxis(const Axis& axis, TapeTensorId like,
                                 int32_t index) const {
  if (index < 0 || index >= NewLengthOf(axis)) return kNoTapeTensor;
  if (axis.loop < 0) return items_.at(axis.call)[index];
  const std::vector<TapeTensorId>& made = inside_[axis.loop][index];
  const int32_t position = rounds_.Of(like).position;
  return position < static_cast<int32_t>(made.size()) ? made[position]
                                                      : kNoTapeTensor;
}

TapeTensorId OtherRounds::FindAlong(const Axis& axis, TapeTensorId id, int step,
                                    const Origin& in) const {
  const int32_t moved = in.round - in.from;
  const int32_t from_end = LengthOf(axis) - 1 - axis.index;
  // The first rounds may take what others don't: the last one of all.
  if (step == 1 &&
      (in.is_copy() ||
       rounds_.TakesAt(in.loop, axis.loop, axis.call, axis.index - in.from))) {
    return OnAxis(axis, id, axis.index + moved);
  }
  // It goes through as many more as there are, or a loop's rounds from their
  // last one on.
  const bool is_like =
      in.loop >= 0 && LengthOf(axis) - rounds_.count(in.loop) ==
                          NewLengthOf(axis) - counts_[in.loop];
  if (step == -1 && (from_end == in.from || is_like)) {
    return OnAxis(axis, id, NewLengthOf(axis) - 1 - from_end - moved);
  }
  // The last ones, or the first ones: which of them, other runs tell.
  const bool is_last =
      from_end == 0 || (from_end <= kMostBeside && from_end < axis.index);
  return OnAxis(axis, id,
                is_last ? NewLengthOf(axis) - 1 - from_end : axis.index);
}

TapeTensorId OtherRounds::Find(TapeTensorId id, TapeTensorId before,
                               const Origin& in) const {
  if (id == kNoTapeTensor) return kNoTapeTensor;
  const Axis axis = AxisOf(id);
  if (!axis.is_any()) {
    // A copy refers to what both rounds do.
    return in.is_copy() && before != id ? kNoTapeTensor : outside_[id];
  }
  if (axis.loop >= 0 && axis.loop == in.loop) {
    if (!in.is_copy() || before == id) return OnAxis(axis, id, axis.index);
    if (before == kNoTapeTensor) return kNoTapeTensor;
    const Rounds::Place place = rounds_.Of(id);
    const Rounds::Place there = rounds_.Of(before);
    const bool is_alike = there.loop == place.loop &&
                          there.position == place.position &&
                          there.round + 1 == place.round;
    return is_alike ? OnAxis(axis, id, axis.index + in.round - in.from)
                    : kNoTapeTensor;
  }
  int step = 0;
  if (in.loop >= 0) {
    step = axis.loop >= 0 ? rounds_.StepOverLoop(in.loop, axis.loop)
                          : rounds_.StepOver(in.loop, axis.call);
  }
  // What was the same in the round before stays where it is.
  if (in.loop >= 0 && before == id) step = 0;
  if (in.is_copy() && before != id) {
    const Axis there = before < 0 ? Axis{} : AxisOf(before);
    if (step == 0 || !there.IsLike(axis) || axis.index - there.index != step) {
      return kNoTapeTensor;
    }
  }
  return FindAlong(axis, id, step, in);
}

std::optional<OtherRounds::Block> OtherRounds::FindBlock(
    absl::Span<const TapeTensorId> list) const {
  // The first round may have given something else.
  constexpr int32_t kLatestFirst = 1;
  const int32_t length = LengthOf(AxisOf(list.front()));
  const int32_t front = AxisOf(list.front()).index;
  const int32_t back = AxisOf(list.back()).index;
  Block block{.first = std::min(front, back), .ascends = front < back};
  const int32_t num_rounds = length - block.first;
  if (std::max(front, back) != length - 1 || front == back ||
      block.first > kLatestFirst) {
    return std::nullopt;
  }
  const auto size = static_cast<int32_t>(list.size());
  if (size % num_rounds != 0) return std::nullopt;
  block.each = size / num_rounds;
  for (int32_t k = 0; k < size; ++k) {
    const int32_t place = k / block.each;
    const int32_t index =
        block.ascends ? block.first + place : length - 1 - place;
    if (AxisOf(list[k]).index != index) return std::nullopt;
  }
  return block;
}

std::vector<TapeTensorId> OtherRounds::MapList(
    const std::vector<TapeTensorId>& list,
    const std::vector<TapeTensorId>* before, const Origin& in) const {
  std::vector<TapeTensorId> made;
  const auto one = [&](size_t i) {
    const bool has_before = before != nullptr && before->size() == list.size();
    return Find(list[i], has_before ? (*before)[i] : kNoTapeTensor, in);
  };
  const auto axis_of = [&](size_t i) {
    return list[i] == kNoTapeTensor ? Axis{} : AxisOf(list[i]);
  };
  for (size_t i = 0; i < list.size();) {
    const Axis axis = axis_of(i);
    size_t end = i + 1;
    while (axis.is_any() && end < list.size() && axis_of(end).IsLike(axis)) {
      ++end;
    }
    const std::optional<Block> block =
        axis.is_any() ? FindBlock(absl::MakeConstSpan(list).subspan(i, end - i))
                      : std::nullopt;
    const bool is_own = axis.loop >= 0 && axis.loop == in.loop;
    if (!block.has_value() || is_own) {
      for (; i < end; ++i) made.push_back(one(i));
      continue;
    }
    const int32_t length = LengthOf(axis), count = NewLengthOf(axis);
    for (int32_t k = block->first; k < count; ++k) {
      const int32_t index = block->ascends ? k : count - 1 - (k - block->first);
      const int32_t from = std::min(index, length - 1);
      const int32_t place =
          block->ascends ? from - block->first : length - 1 - from;
      for (int32_t g = 0; g < block->each; ++g) {
        made.push_back(OnAxis(axis, list[i + place * block->each + g], index));
      }
    }
    i = end;
  }
  return made;
}

absl::Status OtherRounds::MapValues(const std::vector<TapeValue>& values,
                                    const std::vector<TapeValue>* before,
                                    const Origin& in,
                                    std::vector<TapeValue>* made) const {
  const TapeCall& call = old_.calls[in.old];
  for (size_t i = 0; i < values.size(); ++i) {
    const TapeValue* there =
        before != nullptr && i < before->size() ? &(*before)[i] : nullptr;
    if (const auto* ref = std::get_if<TapeTensorRef>(&values[i])) {
      const auto* other =
          there == nullptr ? nullptr : std::get_if<TapeTensorRef>(there);
      const TapeTensorId id =
          Find(ref->id, other == nullptr ? kNoTapeTensor : other->id, in);
      if (id == kNoTapeTensor && ref->id != id) return Unfollowed(call);
      made->emplace_back(TapeTensorRef{id});
    } else if (const auto* list = std::get_if<TapeTensorList>(&values[i])) {
      const auto* other =
          there == nullptr ? nullptr : std::get_if<TapeTensorList>(there);
      TapeTensorList mapped{
          MapList(list->ids, other == nullptr ? nullptr : &other->ids, in)};
      if (absl::c_count(mapped.ids, kNoTapeTensor) !=
          absl::c_count(list->ids, kNoTapeTensor)) {
        return Unfollowed(call);
      }
      made->emplace_back(std::move(mapped));
    } else {
      made->push_back(values[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status OtherRounds::MapNumbers() {
  made_.host_values = old_.host_values;
  made_.host_results = old_.host_results;
  made_.host_reads = old_.host_reads;
  const auto map = [this](int32_t& call) {
    if (call < 0) return true;
    call = first_call_[call];
    return call >= 0;
  };
  bool is_known = true;
  for (TapeHostRead& read : made_.host_reads) is_known &= map(read.call);
  for (TapeHostValue& number : made_.host_values) is_known &= map(number.call);
  if (is_known) return absl::OkStatus();
  return absl::FailedPreconditionError("a loop reads a tensor's data");
}

// What the round before did in the place of a call; null if it did otherwise.
const TapeCall* OtherRounds::CallBefore(int32_t call) const {
  Rounds::Place place = rounds_.OfCall(call);
  if (place.loop < 0 || place.round == 0) return nullptr;
  const RoundBegins& begins = rounds_.begins(place.loop);
  --place.round;
  if (begins[place.round + 1] - begins[place.round] !=
      begins[place.round + 2] - begins[place.round + 1]) {
    return nullptr;
  }
  const TapeCall& before = old_.calls[rounds_.CallAt(place)];
  const TapeCall& like = old_.calls[call];
  const bool is_alike =
      before.op == like.op && before.args.size() == like.args.size();
  return is_alike ? &before : nullptr;
}

absl::Status OtherRounds::MakeCalls() {
  for (const Origin& origin : calls_) {
    const TapeCall& old = old_.calls[origin.old];
    const TapeCall* before = CallBefore(origin.old);
    if (origin.is_copy() && before == nullptr) return Unfollowed(old);
    TapeCall call = old;
    call.args.clear();
    call.outputs.clear();
    MICA_RETURN_IF_ERROR(MapValues(old.args,
                                   before == nullptr ? nullptr : &before->args,
                                   origin, &call.args));
    MICA_RETURN_IF_ERROR(
        MapValues(old.outputs, before == nullptr ? nullptr : &before->outputs,
                  origin, &call.outputs));
    made_.calls.push_back(std::move(call));
  }
  return absl::OkStatus();
}

absl::Status OtherRounds::MakeTensors() {
  const auto owners = OwnersOf(old_);
  absl::flat_hash_map<TapeTensorId, int32_t> storages;  // By new owner.
  absl::flat_hash_map<int32_t, int32_t> items;          // By scaled call.
  for (const Origin& origin : tensors_) {
    TapeTensor tensor = old_.tensors[origin.old];
    const Rounds::Place place = rounds_.Of(origin.old);
    const TapeTensorId before =
        origin.loop < 0
            ? kNoTapeTensor
            : rounds_.At({place.loop, place.round - 1, place.position});
    if (origin.is_copy() && before == kNoTapeTensor) {
      return absl::FailedPreconditionError("a loop's rounds make others");
    }
    if (tensor.call >= 0 && origin.loop >= 0) {
      const Rounds::Place call = rounds_.OfCall(tensor.call);
      tensor.call = begins_[call.loop][origin.round] + call.position;
    } else if (tensor.call >= 0) {
      if (items_.contains(tensor.call) && tensor.item >= 0) {
        tensor.item = items[tensor.call]++;
      }
      tensor.call = first_call_[tensor.call];
    }
    const auto like = [&](TapeTensorId of_old, TapeTensorId of_before) {
      return Find(of_old, of_before, origin);
    };
    if (tensor.base != kNoTapeTensor) {
      tensor.base = like(
          tensor.base, before < 0 ? kNoTapeTensor : old_.tensors[before].base);
      if (tensor.base == kNoTapeTensor) {
        return absl::FailedPreconditionError("a loop's rounds make others");
      }
    }
    const TapeTensorId owner = like(
        owners.at(tensor.storage),
        before < 0 ? kNoTapeTensor : owners.at(old_.tensors[before].storage));
    if (owner == kNoTapeTensor) {
      return absl::FailedPreconditionError(
          "a loop's rounds share other memory");
    }
    tensor.storage =
        storages.try_emplace(owner, static_cast<int32_t>(storages.size()))
            .first->second;
    made_.tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace mica
