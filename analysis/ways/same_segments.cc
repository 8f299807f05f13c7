#include "analysis/ways/same_segments.h"

#include <algorithm>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

absl::Status Differ(const TapeCall& call, const char* what) {
  return absl::FailedPreconditionError(
      absl::StrCat(call.op, ": ", what, LineOf(call)));
}

// Whether two lists are as long and `same` holds of each pair of items.
template <typename Item, typename Same>
bool AreSame(const std::vector<Item>& a, const std::vector<Item>& b,
             const Same& same) {
  bool all = a.size() == b.size();
  for (size_t i = 0; all && i < a.size(); ++i) all = same(a[i], b[i]);
  return all;
}

class Matcher {
 public:
  Matcher(const WayRun& a, int32_t run_a, int32_t segment_a, const WayRun& b,
          int32_t segment_b, NamesInRun& in_b)
      : a_(a),
        run_a_(run_a),
        b_(b),
        begin_a_(a.SegmentBegin(segment_a)),
        begin_b_(b.SegmentBegin(segment_b)),
        in_b_(in_b) {}

  absl::Status Match(int32_t segment_a, int32_t segment_b) {
    const int32_t count = a_.SegmentEnd(segment_a) - begin_a_;
    if (count != b_.SegmentEnd(segment_b) - begin_b_) {
      return absl::FailedPreconditionError("runs differ between their forks");
    }
    for (int32_t i = 0; i < count; ++i) {
      MICA_RETURN_IF_ERROR(MatchCalls(a_.tape->calls[begin_a_ + i],
                                      b_.tape->calls[begin_b_ + i]));
    }
    const bool ends_a = segment_a + 1 == a_.num_segments();
    const bool ends_b = segment_b + 1 == b_.num_segments();
    if (ends_a != ends_b) {
      return absl::FailedPreconditionError("one run ends, one goes on");
    }
    return ends_a ? MatchResults()
                  : MatchEvents(a_.events[segment_a], b_.events[segment_b]);
  }

 private:
  absl::Status MatchCalls(const TapeCall& a, const TapeCall& b) {
    if (a.op != b.op || a.args.size() != b.args.size() ||
        a.outputs.size() != b.outputs.size()) {
      return Differ(a, "other calls come between two forks");
    }
    for (size_t i = 0; i < a.args.size(); ++i) {
      if (!IsSame(a.args[i], b.args[i])) {
        return Differ(a, "takes something else");
      }
    }
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      if (!Made(a.outputs[i], b.outputs[i])) {
        return Differ(a, "gives something else");
      }
    }
    return absl::OkStatus();
  }

  absl::Status MatchEvents(const WayEvent& a, const WayEvent& b) {
    if (a.kind != b.kind) {
      return absl::FailedPreconditionError("runs fork at other places");
    }
    if (a.kind == WayEvent::Kind::kJoin) {
      // Who has equal states has them in equal order.
      return a.tensors.size() == b.tensors.size()
                 ? absl::OkStatus()
                 : absl::FailedPreconditionError("runs join at other places");
    }
    const TapeCall& asked_a = a_.tape->calls[a.asked];
    const TapeCall& asked_b = b_.tape->calls[b.asked];
    const bool compares = IsComparison(asked_a);
    if (asked_a.op != asked_b.op ||
        (!compares && a.asked - begin_a_ != b.asked - begin_b_)) {
      return Differ(asked_a, "runs fork at other places");
    }
    for (size_t i = 0; compares && i < asked_a.args.size(); ++i) {
      if (!IsSame(asked_a.args[i], asked_b.args[i])) {
        return Differ(asked_a, "compares something else");
      }
    }
    return absl::OkStatus();
  }

  absl::Status MatchResults() const {
    return AreTensors(a_.tape->results, b_.tape->results)
               ? absl::OkStatus()
               : absl::FailedPreconditionError("runs give other results");
  }

  bool IsTensor(TapeTensorId a, TapeTensorId b) const {
    if (a == kNoTapeTensor || b == kNoTapeTensor) return a == b;
    if (const auto it = in_b_.find({run_a_, a}); it != in_b_.end()) {
      return it->second == b;
    }
    const TapeTensor& one = a_.tape->tensors[a];
    const TapeTensor& other = b_.tape->tensors[b];
    if (one.origin != other.origin) return false;
    switch (one.origin) {
      case TapeOrigin::kInput:
        return one.input == other.input;
      case TapeOrigin::kState:
        return StateOf(a_, a) == StateOf(b_, b);
      case TapeOrigin::kConstant:
        return HasSameForm(one, other) && one.bytes != nullptr &&
               other.bytes != nullptr &&
               AreOperands(one.numbers, other.numbers) &&
               (!one.numbers.empty() || *one.bytes == *other.bytes);
      case TapeOrigin::kCall:
      case TapeOrigin::kAlias:
        return false;
    }
    return false;
  }

  bool AreTensors(const std::vector<TapeTensorId>& a,
                  const std::vector<TapeTensorId>& b) const {
    return AreSame(a, b, [this](TapeTensorId one, TapeTensorId other) {
      return IsTensor(one, other);
    });
  }

  static int64_t StateOf(const WayRun& run, TapeTensorId id) {
    const std::vector<TapeTensorId>& states = run.tape->states;
    const auto at = std::find(states.begin(), states.end(), id);
    return at == states.end() ? -1 : run.states[at - states.begin()];
  }

  static bool HasSameForm(const TapeTensor& a, const TapeTensor& b) {
    const auto form = [](const TapeTensor& tensor) {
      return std::tie(tensor.dtype, tensor.device, tensor.sizes, tensor.strides,
                      tensor.requires_grad, tensor.is_conj, tensor.is_neg,
                      tensor.is_wrapped_number);
    };
    return form(a) == form(b);
  }

  bool IsNumber(int32_t a, int32_t b) const {
    if (a < 0 || b < 0) return a == b;
    const TapeHostValue& one = a_.tape->host_values[a];
    const TapeHostValue& other = b_.tape->host_values[b];
    const auto form = [](const TapeHostValue& value) {
      return std::tie(value.kind, value.input, value.name, value.output,
                      value.op, value.is_constant);
    };
    const bool is_read = one.kind == TapeHostValue::Kind::kRead;
    return form(one) == form(other) &&
           (!one.is_constant || one.value == other.value) &&
           (!is_read || one.call - begin_a_ == other.call - begin_b_) &&
           AreOperands(one.operands, other.operands);
  }
  bool AreOperands(const std::vector<TapeHostOperand>& a,
                   const std::vector<TapeHostOperand>& b) const {
    return AreSame(
        a, b, [this](const TapeHostOperand& one, const TapeHostOperand& other) {
          return IsOperand(one, other);
        });
  }
  bool IsOperand(const TapeHostOperand& a, const TapeHostOperand& b) const {
    if (a.id < 0 && b.id < 0) return a.constant == b.constant;
    return IsNumber(a.id, b.id);
  }

  bool IsSame(const TapeValue& a, const TapeValue& b) const {
    if (a.index() != b.index()) return false;
    if (const auto* ref = std::get_if<TapeTensorRef>(&a)) {
      return IsTensor(ref->id, std::get<TapeTensorRef>(b).id);
    }
    if (const auto* list = std::get_if<TapeTensorList>(&a)) {
      return AreTensors(list->ids, std::get<TapeTensorList>(b).ids);
    }
    if (const auto* number = std::get_if<TapeHostRef>(&a)) {
      return IsNumber(number->id, std::get<TapeHostRef>(b).id);
    }
    if (const auto* list = std::get_if<TapeHostList>(&a)) {
      return AreOperands(list->items, std::get<TapeHostList>(b).items);
    }
    return a == b;
  }

  bool MadeTensor(TapeTensorId a, TapeTensorId b) {
    if (a == kNoTapeTensor || b == kNoTapeTensor) return a == b;
    if (!HasSameForm(a_.tape->tensors[a], b_.tape->tensors[b])) return false;
    in_b_[{run_a_, a}] = b;
    return true;
  }
  bool Made(const TapeValue& a, const TapeValue& b) {
    if (a.index() != b.index()) return false;
    if (const auto* ref = std::get_if<TapeTensorRef>(&a)) {
      return MadeTensor(ref->id, std::get<TapeTensorRef>(b).id);
    }
    if (const auto* list = std::get_if<TapeTensorList>(&a)) {
      return AreSame(list->ids, std::get<TapeTensorList>(b).ids,
                     [this](TapeTensorId one, TapeTensorId other) {
                       return MadeTensor(one, other);
                     });
    }
    return true;  // What is read is asked for by a fork.
  }

  const WayRun& a_;
  const int32_t run_a_;
  const WayRun& b_;
  const int32_t begin_a_;
  const int32_t begin_b_;
  NamesInRun& in_b_;
};

}  // namespace

absl::Status MatchSegments(const WayRun& a, int32_t run_a, int32_t segment_a,
                           const WayRun& b, int32_t segment_b,
                           NamesInRun* in_b) {
  return Matcher(a, run_a, segment_a, b, segment_b, *in_b)
      .Match(segment_a, segment_b);
}

}  // namespace mica
