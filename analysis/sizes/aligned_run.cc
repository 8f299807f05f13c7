#include "analysis/sizes/aligned_run.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

class Alignment {
 public:
  Alignment(const Tape& own, const Rounds& of_own, const Tape& like,
            const Rounds& of_like)
      : own_(own),
        of_own_(of_own),
        like_(like),
        of_like_(of_like),
        others_(own.tensors.size(), kNoTapeTensor),
        owns_(like.tensors.size(), kNoTapeTensor) {}

  absl::StatusOr<AlignedRun> Make() {
    made_ = like_;
    made_.host_values = own_.host_values;
    made_.host_reads = own_.host_reads;
    made_.host_results = own_.host_results;
    MICA_RETURN_IF_ERROR(PairAll(own_.inputs, like_.inputs));
    for (size_t i = 0; i < like_.calls.size(); ++i) {
      MICA_RETURN_IF_ERROR(PairCall(static_cast<int32_t>(i)));
    }
    if (num_paired_ != own_.calls.size()) return Other("calls");
    MICA_RETURN_IF_ERROR(PairAll(own_.states, like_.states));
    MICA_RETURN_IF_ERROR(PairAll(own_.results, like_.results));
    MICA_RETURN_IF_ERROR(PairAll(own_.mutated, like_.mutated));
    MICA_RETURN_IF_ERROR(PairNumbers());
    MICA_RETURN_IF_ERROR(TakeTensors());
    return AlignedRun{.tape = std::move(made_), .tensors = std::move(others_)};
  }

 private:
  static absl::Status Other(const std::string& what) {
    return absl::FailedPreconditionError(
        absl::StrCat("the runs' loops met other ", what));
  }
  static absl::Status Other(const TapeCall& call) {
    return absl::FailedPreconditionError(absl::StrCat(
        call.op, ": a round of a loop did otherwise", LineOf(call)));
  }

  // The own call that the other one corresponds to: of rounds that weren't
  // made, the last one's.
  int32_t OwnCall(int32_t call, bool* is_missing) const {
    Rounds::Place place = of_like_.OfCall(call);
    if (place.loop >= 0) {
      const int32_t last = of_own_.count(place.loop) - 1;
      *is_missing = place.round > last;
      const RoundBegins& begins = of_own_.begins(place.loop);
      place.round = std::min(place.round, last);
      const int32_t own = begins[place.round] + place.position;
      return own < begins[place.round + 1] ? own : -1;
    }
    // In no loop: as many calls of rounds come before.
    int32_t own = call;
    for (int32_t loop = 0; loop < of_like_.num_loops(); ++loop) {
      if (of_like_.begins(loop).back() > call) break;
      own = call - of_like_.begins(loop).back() + of_own_.begins(loop).back();
    }
    return own < static_cast<int32_t>(own_.calls.size()) ? own : -1;
  }

  absl::Status PairCall(int32_t index) {
    bool is_missing = false;
    const int32_t own = OwnCall(index, &is_missing);
    const TapeCall& other = like_.calls[index];
    if (own < 0) return Other(other);
    const TapeCall& call = own_.calls[own];
    if (call.op != other.op || call.args.size() != other.args.size() ||
        call.outputs.size() != other.outputs.size()) {
      return Other(other);
    }
    if (!is_missing) {
      ++num_paired_;
      own_calls_[own] = index;
      for (size_t i = 0; i < call.args.size(); ++i) {
        if (!Pair(call.args[i], other.args[i])) return Other(other);
      }
      for (size_t i = 0; i < call.outputs.size(); ++i) {
        if (!Pair(call.outputs[i], other.outputs[i])) return Other(other);
      }
    }
    TapeCall& made = made_.calls[index];
    for (auto [to, from] : {std::pair(&made.args, &call.args),
                            std::pair(&made.outputs, &call.outputs)}) {
      for (size_t i = 0; i < to->size(); ++i) {
        TapeValue& value = (*to)[i];
        if (std::holds_alternative<TapeTensorRef>(value) ||
            std::holds_alternative<TapeTensorList>(value)) {
          continue;
        }
        value = (*from)[i];
      }
    }
    made.mutated_args = call.mutated_args;
    made.later_part = call.later_part;
    made.has_dynamic_output_shape = call.has_dynamic_output_shape;
    return absl::OkStatus();
  }

  bool Pair(const TapeValue& own, const TapeValue& other) {
    if (own.index() != other.index()) return false;
    if (const auto* ref = std::get_if<TapeTensorRef>(&own)) {
      return Pair(ref->id, std::get<TapeTensorRef>(other).id);
    }
    if (const auto* list = std::get_if<TapeTensorList>(&own)) {
      return PairLists(list->ids, std::get<TapeTensorList>(other).ids);
    }
    return true;
  }

  // Rounds that weren't made have nothing in a list that has something of each.
  bool PairLists(const std::vector<TapeTensorId>& own,
                 const std::vector<TapeTensorId>& other) {
    if (own.size() == other.size()) {
      for (size_t i = 0; i < own.size(); ++i) {
        if (!Pair(own[i], other[i])) return false;
      }
      return true;
    }
    std::vector<TapeTensorId> made;
    bool has_items = false;
    for (const TapeTensorId id : other) {
      const Rounds::Place place =
          id == kNoTapeTensor ? Rounds::Place{} : of_like_.Of(id);
      if (place.loop >= 0 && place.round >= of_own_.count(place.loop)) continue;
      has_items |= place.loop < 0 && id != kNoTapeTensor &&
                   of_like_.taken().contains(like_.tensors[id].call);
      made.push_back(id);
    }
    // What rounds take of a call's results is known when they do.
    if (has_items && made.size() == other.size()) return true;
    if (made.size() != own.size()) return false;
    for (size_t i = 0; i < own.size(); ++i) {
      if (!Pair(own[i], made[i])) return false;
    }
    return true;
  }

  bool Pair(TapeTensorId own, TapeTensorId other) {
    if (own == kNoTapeTensor || other == kNoTapeTensor) return own == other;
    if (others_[own] == other) return true;
    const TapeTensor &from = own_.tensors[own], &like = like_.tensors[other];
    if (from.origin == TapeOrigin::kAlias &&
        (like.origin != TapeOrigin::kAlias || !Pair(from.base, like.base))) {
      return false;
    }
    // What comes after a loop, and rounds that go through another loop from
    // its last one on, take what corresponds to what they take as that comes
    // as long before the end; it may correspond to something else from the
    // beginning on.
    const bool are_both_last = AreBothLast(own, other);
    if (!are_both_last && owns_[other] != kNoTapeTensor) {
      return owns_[other] == own;
    }
    if (!are_both_last && others_[own] != kNoTapeTensor) return false;
    if (others_[own] == kNoTapeTensor) others_[own] = other;
    if (owns_[other] == kNoTapeTensor) owns_[other] = own;
    return true;
  }

  bool AreBothLast(TapeTensorId own, TapeTensorId other) const {
    const Rounds::Place place = of_own_.Of(own), there = of_like_.Of(other);
    if (place.loop < 0 && there.loop < 0) return AreLastItems(own, other);
    return place.loop >= 0 && place.loop == there.loop &&
           place.position == there.position &&
           of_own_.count(place.loop) - place.round ==
               of_like_.count(place.loop) - there.round;
  }

  // The same for what calls gave as lists.
  bool AreLastItems(TapeTensorId own, TapeTensorId other) const {
    const TapeTensor &one = own_.tensors[own], &there = like_.tensors[other];
    const auto call = own_calls_.find(one.call);
    if (one.item < 0 || there.item < 0 || one.output != there.output ||
        call == own_calls_.end() || call->second != there.call ||
        !of_like_.taken().contains(there.call)) {
      return false;
    }
    return LengthOf(own_, one) - one.item ==
           LengthOf(like_, there) - there.item;
  }
  static int32_t LengthOf(const Tape& tape, const TapeTensor& item) {
    const auto* list = std::get_if<TapeTensorList>(
        &tape.calls[item.call].outputs[item.output]);
    return list == nullptr ? -1 : static_cast<int32_t>(list->ids.size());
  }

  absl::Status PairAll(const std::vector<TapeTensorId>& own,
                       const std::vector<TapeTensorId>& other) {
    if (own.size() != other.size()) return Other("tensors");
    for (size_t i = 0; i < own.size(); ++i) {
      if (!Pair(own[i], other[i])) return Other("tensors");
    }
    return absl::OkStatus();
  }

  absl::Status PairNumbers() {
    const auto map = [this](int32_t& call) {
      if (call < 0) return true;
      const auto it = own_calls_.find(call);
      if (it == own_calls_.end()) return false;
      call = it->second;
      return true;
    };
    bool all = true;
    for (TapeHostRead& read : made_.host_reads) all &= map(read.call);
    for (TapeHostValue& number : made_.host_values) all &= map(number.call);
    return all ? absl::OkStatus() : Other("numbers");
  }

  // The own tensor that stands for one of the other run's.
  TapeTensorId OwnOf(TapeTensorId other) const {
    if (owns_[other] != kNoTapeTensor) return owns_[other];
    Rounds::Place place = of_like_.Of(other);
    if (place.loop >= 0) {
      place.round = of_own_.count(place.loop) - 1;
      return of_own_.At(place);
    }
    // A result of a call that the rounds take one by one.
    const TapeTensor& tensor = like_.tensors[other];
    if (tensor.call < 0) return kNoTapeTensor;
    bool is_missing = false;
    const int32_t call = OwnCall(tensor.call, &is_missing);
    const auto* list = call < 0 ? nullptr
                                : std::get_if<TapeTensorList>(
                                      &own_.calls[call].outputs[tensor.output]);
    if (list == nullptr || list->ids.empty() || tensor.item < 0) {
      return kNoTapeTensor;
    }
    const auto item = static_cast<size_t>(tensor.item);
    return list->ids[std::min(item, list->ids.size() - 1)];
  }

  // Whether a tensor lies in the memory of one that another loop made.
  bool LiesElsewhere(TapeTensorId id, TapeTensorId owner) const {
    const int32_t loop = of_own_.Of(owner).loop;
    return loop >= 0 && loop != of_own_.Of(id).loop;
  }

  absl::Status TakeTensors() {
    absl::flat_hash_map<int32_t, int32_t> there, back;  // Storages.
    const auto owners = OwnersOf(own_), owners_there = OwnersOf(like_);
    for (size_t t = 0; t < like_.tensors.size(); ++t) {
      const auto id = static_cast<TapeTensorId>(t);
      const TapeTensorId own = OwnOf(id);
      if (own == kNoTapeTensor) return Other("tensors");
      const TapeTensor& from = own_.tensors[own];
      TapeTensor& made = made_.tensors[t];
      const TapeTensorId owner = owners.at(from.storage);
      const TapeTensorId owner_there =
          owners_there.at(like_.tensors[t].storage);
      if (LiesElsewhere(own, owner)) {
        if (owns_[id] == own && others_[own] == id &&
            owns_[owner_there] != owner && !AreBothLast(owner, owner_there)) {
          return Other("memory");
        }
      } else if (owns_[id] == own && others_[own] == id) {
        const int32_t other = like_.tensors[t].storage;
        if (there.try_emplace(from.storage, other).first->second != other ||
            back.try_emplace(other, from.storage).first->second !=
                from.storage) {
          return Other("memory");
        }
      }
      const TapeTensor like = std::exchange(made, from);
      made.storage = like.storage;
      made.call = like.call;
      made.output = like.output;
      made.item = like.item;
      made.base = like.base;
      if ((from.call < 0) != (like.call < 0) ||
          (from.base < 0) != (like.base < 0)) {
        return Other("tensors");
      }
    }
    return absl::OkStatus();
  }

  const Tape& own_;
  const Rounds& of_own_;
  const Tape& like_;
  const Rounds& of_like_;
  Tape made_;
  std::vector<TapeTensorId> others_;  // By own tensor.
  std::vector<TapeTensorId> owns_;    // By other tensor.
  absl::flat_hash_map<int32_t, int32_t> own_calls_;
  size_t num_paired_ = 0;
};

}  // namespace

absl::StatusOr<AlignedRun> AlignRun(const Tape& own, const Rounds& of_own,
                                    const Tape& like, const Rounds& of_like) {
  return Alignment(own, of_own, like, of_like).Make();
}

}  // namespace mica
