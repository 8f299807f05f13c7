#include "python/capture/record/record_ways.h"

#include <complex>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analysis/lower/lstm_layers.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "python/capture/record/hit_times.h"
#include "python/capture/record/record_sizes.h"

namespace mica {
namespace {

// The element of a tensor of one, as a tape has what was read.
std::optional<TapeValue> ElementAt(const void* data, const std::string& dtype) {
  const auto load = [data](auto value) {
    std::memcpy(&value, data, sizeof value);
    return value;
  };
  if (dtype == "bool") return TapeValue(load(uint8_t{}) != 0);
  if (dtype == "f32") return TapeValue(static_cast<double>(load(float{})));
  if (dtype == "f64") return TapeValue(load(double{}));
  if (dtype == "i64") return TapeValue(load(int64_t{}));
  if (dtype == "i32") return TapeValue(int64_t{load(int32_t{})});
  if (dtype == "i16") return TapeValue(int64_t{load(int16_t{})});
  if (dtype == "i8") return TapeValue(int64_t{load(int8_t{})});
  if (dtype == "u8") return TapeValue(int64_t{load(uint8_t{})});
  if (dtype == "c64") {
    return TapeValue(std::complex<double>(load(std::complex<float>{})));
  }
  if (dtype == "c128") return TapeValue(load(std::complex<double>{}));
  return std::nullopt;
}

bool IsReadable(const std::string& dtype) {
  static constexpr std::complex<double> kAny;
  return ElementAt(&kAny, dtype).has_value();
}

bool Compares(const std::string& op, double a, double b) {
  if (op == "mica.scalar_lt") return a < b;
  if (op == "mica.scalar_le") return a <= b;
  return a == b;
}

bool IsKnownComparison(const std::string& op) {
  return op == "mica.scalar_lt" || op == "mica.scalar_le" ||
         op == "mica.scalar_eq";
}

}  // namespace

absl::Status RecordWays::Add(std::shared_ptr<const RecordedWay> way) {
  const RecordWays before = *this;
  const auto same = [&](int32_t run_a, int32_t a, int32_t run_b, int32_t b) {
    return recorded_[run_a]->states[a] == recorded_[run_b]->states[b];
  };
  recorded_.push_back(way);
  absl::Status status = ways_.Add(way->run, same);
  if (status.ok()) status = MakeParts();
  if (!status.ok()) *this = before;
  return status;
}

RecordWays::Place RecordWays::PlaceOf(const Ways::Name& name) {
  const Tape& tape = *ways_.runs()[name.run].tape;
  const TapeTensor& tensor = tape.tensors[name.tensor];
  Place place{.run = name.run};
  if (tensor.origin == TapeOrigin::kInput) {
    place.input = tensor.input;
  } else if (tensor.origin == TapeOrigin::kState) {
    place.state = static_cast<int32_t>(absl::c_find(tape.states, name.tensor) -
                                       tape.states.begin());
  } else {
    place.slot = slots_.try_emplace(name, static_cast<int32_t>(slots_.size()))
                     .first->second;
  }
  return place;
}

absl::Status RecordWays::MakeParts() {
  const std::vector<WantedNames> wanted = FindWanted(ways_);
  if (!wanted[0].empty()) {
    return absl::FailedPreconditionError("wants what wasn't made on each way");
  }
  std::vector<std::shared_ptr<Part>> parts(ways_.nodes().size());
  std::vector<int32_t> todo = {0};
  while (!todo.empty()) {
    const int32_t number = todo.back();
    todo.pop_back();
    if (parts[number] != nullptr) continue;
    MICA_ASSIGN_OR_RETURN(parts[number], MakePart(number, wanted));
    for (const Ways::Edge& edge : ways_.nodes()[number].next) {
      todo.push_back(edge.node);
    }
  }
  parts_ = std::move(parts);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<RecordWays::Part>> RecordWays::MakePart(
    int32_t number, absl::Span<const WantedNames> wanted) {
  const Ways::Node& node = ways_.nodes()[number];
  const Tape& tape = *ways_.runs()[node.run].tape;
  auto made = std::make_shared<Part>();
  MICA_ASSIGN_OR_RETURN(made->part, MakeWayPart(ways_, number, wanted));
  const WayPart& part = made->part;
  for (const int32_t arg : part.args) {
    made->inputs.push_back({.run = node.run, .input = arg});
  }
  for (const TapeTensorId id : part.kept) {
    made->inputs.push_back(PlaceOf({node.run, id}));
  }
  for (const int32_t state : part.states) {
    made->states.push_back({.run = node.run, .state = state});
  }
  for (const TapeTensorId id : part.results) {
    made->results.push_back(PlaceOf({node.run, id}).slot);
  }
  for (const auto& [id, place] :
       {std::pair{part.read, &made->read}, std::pair{part.a.read, &made->a},
        std::pair{part.b.read, &made->b}}) {
    if (id < 0) continue;
    const TapeTensor& tensor = tape.tensors[id];
    if (tensor.origin == TapeOrigin::kConstant || tensor.is_conj ||
        tensor.is_neg || !IsReadable(tensor.dtype)) {
      return absl::FailedPreconditionError(
          "reads a constant, or what lies otherwise in memory");
    }
    *place = PlaceOf({node.run, id});
  }
  if (!part.comparison.empty() && !IsKnownComparison(part.comparison)) {
    return absl::FailedPreconditionError("compares in another way");
  }
  for (const Ways::Edge& edge : node.next) {
    auto& moves = made->moves.emplace_back();
    for (const auto& [to, from] : FindMoves(edge, ways_, wanted)) {
      moves.push_back({PlaceOf(to).slot, PlaceOf(from)});
    }
  }
  for (const TapeTensorId id :
       node.next.empty() ? tape.results : std::vector<int32_t>()) {
    const TapeOrigin origin = tape.tensors[id].origin;
    if (origin == TapeOrigin::kConstant || origin == TapeOrigin::kAlias) {
      return absl::FailedPreconditionError("gives a constant");
    }
    made->given.push_back(PlaceOf({node.run, id}));
  }
  // What was made before is the same if it gives the same.
  if (static_cast<size_t>(number) < parts_.size() &&
      parts_[number] != nullptr &&
      parts_[number]->part.results == part.results) {
    made->graph = parts_[number]->graph;
  }
  return made;
}

absl::Status RecordWays::MakeGraph(Part& part, int32_t run,
                                   absl::Span<PyObject* const> states,
                                   OperatorKernels* kernels) {
  const TraceSpan span("capture", "part of a way");
  const Invested invested;
  const RecordedWay& way = *recorded_[run];
  Tape tape = part.part.tape;
  if (!way.options.exact) UseOwnLstmLayers(tape);
  std::vector<TensorMeta> kinds;
  for (const TapeTensorId id : tape.results) {
    kinds.push_back(KindOf(tape.tensors[id], way.kind));
  }
  MICA_ASSIGN_OR_RETURN(part.graph,
                        Graph::Build(tape, kinds, states, way.options));
  const std::string replaced =
      kernels->AddRuns(part.graph->program()) ? kernels->FindReplaced() : "";
  if (!replaced.empty()) {
    part.graph = nullptr;
    return absl::FailedPreconditionError(
        absl::StrCat("calls ", replaced, ", whose kernel was replaced"));
  }
  part.graph->SetVersions(WritesOf(part.part.tape));
  return absl::OkStatus();
}

// One call.
class RecordWays::Runner {
 public:
  Runner(RecordWays& ways, absl::Span<const Operands> operands,
         OperatorKernels* kernels)
      : ways_(ways),
        operands_(operands),
        kernels_(kernels),
        slots_(ways.slots_.size()) {}

  absl::Status Go(int32_t* end, std::vector<PyRef>* results) {
    int32_t number = 0;
    while (true) {
      // Meanwhile another thread may add a run.
      const std::shared_ptr<Part> part = ways_.parts_[number];
      const Ways::Node node = ways_.ways_.nodes()[number];
      MICA_RETURN_IF_ERROR(Compute(*part, node.run));
      if (node.next.empty()) {
        *end = node.run;
        for (const Place& place : part->given) {
          results->push_back(PyRef::Share(At(place)));
        }
        return absl::OkStatus();
      }
      const int32_t edge = EdgeFrom(*part, node);
      if (edge < 0) {
        const WayRun& run = ways_.ways_.runs()[node.run];
        const TapeCall& asked = run.tape->calls[run.events[node.segment].asked];
        return absl::AbortedError(absl::StrCat("what the program reads at ",
                                               asked.file, ":", asked.line));
      }
      Move(part->moves[edge]);
      number = node.next[edge].node;
    }
  }

 private:
  PyObject* At(const Place& place) const {
    if (place.slot >= 0) return slots_[place.slot].get();
    const Operands& of = operands_[place.run];
    return place.input >= 0 ? of.inputs[place.input] : of.states[place.state];
  }
  std::vector<PyObject*> All(absl::Span<const Place> places) const {
    std::vector<PyObject*> all;
    all.reserve(places.size());
    for (const Place& place : places) all.push_back(At(place));
    return all;
  }

  absl::Status Compute(Part& part, int32_t run) {
    numbers_.clear();
    if (part.part.tape.calls.empty()) return absl::OkStatus();
    const std::vector<PyObject*> inputs = All(part.inputs);
    const std::vector<PyObject*> states = All(part.states);
    if (part.graph == nullptr) {
      MICA_RETURN_IF_ERROR(ways_.MakeGraph(part, run, states, kernels_));
    }
    std::shared_ptr<Graph::Computed> done;
    if (!part.graph->is_checked()) {
      std::shared_ptr<Graph> exact = part.graph->CheckAccuracy(
          inputs, states, {}, std::numeric_limits<int>::max(), &done);
      if (exact != nullptr) part.graph = std::move(exact);
    }
    const std::shared_ptr<Graph> graph = part.graph;
    std::vector<PyRef> results;
    MICA_RETURN_IF_ERROR(graph->Run(inputs, states, {}, {}, {}, &results,
                                    &numbers_, std::move(done)));
    for (size_t i = 0; i < results.size(); ++i) {
      slots_[part.results[i]] = std::move(results[i]);
    }
    return absl::OkStatus();
  }

  std::optional<double> Number(const WayPart::Number& number,
                               const Place& place, int32_t run) const {
    if (number.index >= 0) return numbers_[number.index];
    if (number.read < 0) return number.constant;
    const Tape& tape = *ways_.ways_.runs()[run].tape;
    const std::optional<TapeValue> value =
        ElementAt(DataOf(At(place)), tape.tensors[number.read].dtype);
    if (!value.has_value()) return std::nullopt;
    if (const auto* whole = std::get_if<int64_t>(&*value)) {
      return static_cast<double>(*whole);
    }
    const auto* real = std::get_if<double>(&*value);
    return real == nullptr ? std::nullopt : std::optional(*real);
  }

  int32_t EdgeFrom(const Part& part, const Ways::Node& node) const {
    std::optional<TapeValue> outcome;
    if (part.part.read >= 0) {
      const Tape& tape = *ways_.ways_.runs()[node.run].tape;
      outcome =
          ElementAt(DataOf(At(part.read)), tape.tensors[part.part.read].dtype);
    } else if (!part.part.comparison.empty()) {
      const std::optional<double> a = Number(part.part.a, part.a, node.run);
      const std::optional<double> b = Number(part.part.b, part.b, node.run);
      if (!a.has_value() || !b.has_value()) return -1;
      outcome = TapeValue(Compares(part.part.comparison, *a, *b) ? 1.0 : 0.0);
    } else {
      return 0;  // A join.
    }
    for (size_t i = 0; outcome.has_value() && i < node.next.size(); ++i) {
      if (IsSameOutcome(*outcome, node.next[i].outcome)) {
        return static_cast<int32_t>(i);
      }
    }
    return -1;
  }

  void Move(absl::Span<const std::pair<int32_t, Place>> moves) {
    std::vector<PyRef> values;
    values.reserve(moves.size());
    for (const auto& [to, from] : moves) {
      values.push_back(PyRef::Share(At(from)));
    }
    for (size_t i = 0; i < moves.size(); ++i) {
      slots_[moves[i].first] = std::move(values[i]);
    }
  }

  RecordWays& ways_;
  const absl::Span<const Operands> operands_;
  OperatorKernels* const kernels_;
  std::vector<PyRef> slots_;
  std::vector<double> numbers_;
};

absl::Status RecordWays::Run(absl::Span<const Operands> operands,
                             OperatorKernels* kernels, int32_t* end,
                             std::vector<PyRef>* results) {
  return Runner(*this, operands, kernels).Go(end, results);
}

int64_t RecordWays::num_parts() const {
  return absl::c_count_if(parts_, [](const auto& part) {
    return part != nullptr && !part->part.tape.calls.empty();
  });
}

int64_t RecordWays::num_forks() const {
  int64_t count = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    count += parts_[i] != nullptr && ways_.nodes()[i].next.size() > 1 ? 1 : 0;
  }
  return count;
}

}  // namespace mica
