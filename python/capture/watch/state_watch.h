// What a running program reads of the world outside its arguments.

#ifndef MICA_PYTHON_CAPTURE_WATCH_STATE_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_STATE_WATCH_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/watch/annotated_calls.h"
#include "python/capture/watch/array_arithmetic.h"
#include "python/capture/watch/array_watch.h"
#include "python/capture/watch/attribute_watch.h"
#include "python/capture/watch/builtin_calls.h"
#include "python/capture/watch/cache_uses.h"
#include "python/capture/watch/call_watch.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/draw_watch.h"
#include "python/capture/watch/dying_objects.h"
#include "python/capture/watch/generator_watch.h"
#include "python/capture/watch/grown_reads.h"
#include "python/capture/watch/hook_handles.h"
#include "python/capture/watch/host_call_watch.h"
#include "python/capture/watch/identity_watch.h"
#include "python/capture/watch/item_watch.h"
#include "python/capture/watch/last_calls.h"
#include "python/capture/watch/later_pass_watch.h"
#include "python/capture/watch/loop_watch.h"
#include "python/capture/watch/message_watch.h"
#include "python/capture/watch/number_functions.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/place_watch.h"
#include "python/capture/watch/size_watch.h"
#include "python/capture/watch/table_reads.h"
#include "python/capture/watch/tensor_watch.h"
#include "python/capture/watch/text_sources.h"
#include "python/capture/watch/text_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/way_watch.h"
#include "python/capture/watch/written_places.h"
#include "python/interpreter/stream.h"

namespace mica {

// Listens to an InterpreterStream and turns each read of an object that is
// older than the run into a fact of StateGuards, before the program can change
// it. What the program then changes is found by checking the facts again after
// the run. What can be neither noted nor proven harmless is refused: calls of
// C functions that no table lists, objects of unknown kind.
//
// Objects that the run made itself need no facts: each run makes them anew.
// Those that came in as arguments have guards of their own.
//
// It hands each event to the part that knows what to make of it, and is asked
// by way of the parts what it saw. Single-thread.
class StateWatch final : public StreamListener {
 public:
  // `caller` is the frame that the watched run is called from; may be null.
  explicit StateWatch(PyFrameObject* caller);

  void SetRecorder(RecorderHooks hooks) { ground_.recorder = std::move(hooks); }
  CpuModes& modes() { return ground_.modes; }
  // What else is to be done when a step is over; see EndStep().
  void SetOnStepEnd(std::function<void(PyObject** result, bool entered)> f) {
    on_step_end_ = std::move(f);
  }

  // The stream's events.
  void BeginStep() override;
  void EndStep(PyObject** result, bool entered) override;
  void DropResult() override { ground_.step.is_dropped = true; }
  void CameBack(PyObject* result) override;
  // What the step runs, runs again at each hit; or an annotation stands for it.
  bool StepsOver() override {
    return host_calls_.is_in_step() || is_annotated_call();
  }
  bool Follows(PyObject* function) override {
    return KindOfFunction(function) != FunctionKind::kBookkeeping;
  }
  bool WantsMore() override {
    return !refusals().is_stopped() || refusals().LookOn();
  }
  void Refuse(std::string reason, std::string mend = "") override {
    refusals().Refuse(std::move(reason), std::move(mend));
  }
  void EnterFunction(PyObject* function) override {
    objects_.EnterFunction(function);
  }
  // A constant may be the very object that came from elsewhere.
  void LoadConstant(PyObject* constant) override {
    values().MarkExactDeep(constant);
  }
  void ReadGlobal(PyObject* globals, PyObject* builtins,
                  PyObject* name) override {
    places_.ReadGlobal(globals, builtins, name);
  }
  void WriteGlobal(PyObject* globals, PyObject* name) override {
    dying_.LoseItem(globals, name);
    loops_.WriteGlobal();
    ways_.ChangeOther();
    places_.WriteGlobal(globals, name);
  }
  void ReadAttribute(PyObject* owner, PyObject* name) override {
    sizes_.ReadAttribute(owner, name);
    loops_.ReadAttribute(owner, name);
    ways_.ReadAttribute(owner, name);
    if (sources_.IsMethodOf(owner, name)) return;
    if (!arrays_.TellsForm(owner, name)) values().UseText(owner);
    attributes_.Use(owner, name, PlaceUse::kRead);
  }
  void WriteAttribute(PyObject* owner, PyObject* name) override {
    dying_.LoseAttribute(owner, name);
    loops_.Change(owner);
    ways_.ChangeAttribute(owner);
    values().UseText(owner);
    attributes_.Use(owner, name, PlaceUse::kWrite);
  }
  void RemoveAttribute(PyObject* owner, PyObject* name) override {
    dying_.LoseAttribute(owner, name);
    loops_.Change(owner);
    ways_.ChangeAttribute(owner);
    attributes_.Use(owner, name, PlaceUse::kRemove);
  }
  void ReadCell(PyObject* cell, PyObject* name) override {
    places_.ReadCell(cell, name);
  }
  void WriteCell(PyObject* cell, PyObject* name) override {
    dying_.Lose(PyCell_GET(cell));
    loops_.Change(cell);
    ways_.Change(cell);
    places_.WriteCell(cell, name);
  }
  void UseItem(PyObject* container, PyObject* key) override {
    if (loops_.UseItem(container, key)) return;
    if (grown_.UseItem(container, key)) return;
    if (tables_.UseItem(container, key)) return;
    sizes_.UseItem(container, key);
    if (arithmetic_.UseItem(container, key) ||
        arrays_.UseItem(container, key) || arrays_.PlacesOf(container, key)) {
      return;
    }
    LookForItem(container, key);
  }
  PyRef TakeInPlaceOfItems(PyObject* container, PyObject* key) override;
  void Contains(PyObject* container, PyObject* item) override;
  void ReplaceStore(PyObject** container, PyObject** key,
                    PyObject** value) override;
  void WriteItem(PyObject* container, PyObject* key, PyObject* value) override {
    dying_.LoseItem(container, key);
    loops_.WriteItem(container, key);
    ways_.Change(container);
    sizes_.UseItem(container, key);
    values().UseText(container);
    values().UseText(key);
    items_.Write(container, key, value);
  }
  void RemoveItem(PyObject* container, PyObject* key) override {
    dying_.LoseItem(container, key);
    loops_.Look(container);
    loops_.Change(container);
    ways_.Change(container);
    items_.Remove(container, key);
  }
  void Store(PyObject* owner, PyObject* value) override {
    numbers_.Store(owner, value);
  }
  void NoteChange(PyObject* container) override {
    dying_.MayLose();
    if (!IsTensor(container)) loops_.Change(container);
    ways_.Change(container);
    later_pass_.NoteChange(container);
  }
  void BeginIncrement(PyObject* addend) override {
    written_.BeginIncrement(addend);
  }
  bool EndIncrement() override { return written_.EndIncrement(); }
  void SetStoresSum(bool stores) override { written_.SetStoresSum(stores); }
  void Binary(const char* op, PyObject* a, PyObject* b) override;
  void Extend(PyObject* a, PyObject* b) override {
    loops_.Extend(a, b);
    ways_.Change(a);
    ways_.Look(b);
    values().UseText(a);
    values().UseText(b);
  }
  void Negate(PyObject* number) override {
    if (arithmetic_.Negate(number)) return;
    Use(number);
    numbers_.Negate(number);
  }
  void CompareNumbers(Order order, PyObject* a, PyObject* b) override {
    if (arithmetic_.Compare(order, a, b)) return;
    Use(a);
    Use(b);
    loops_.Look(a);
    loops_.Look(b);
    numbers_.Compare(order, a, b);
  }
  void Compare(PyObject** a, PyObject** b) override;
  void TestTruth(PyObject* object) override {
    if (grown_.TestTruth(object)) return;
    Use(object);
    loops_.Look(object);
    numbers_.TestTruth(object);
  }
  void Format(PyObject* value, int conversion, PyObject* spec) override {
    sources_.Format(value, conversion, spec);
    loops_.Look(value);
    Use(value);
    objects_.Format(value);
    if (spec != nullptr) values().UseText(spec);
  }
  PyRef TakeInPlaceOfFormat(PyObject* text, PyObject* value) override;
  void FormatBy(PyObject* text, PyObject* value) override {
    sources_.FormatBy(text, value);
    loops_.Look(value);
    Use(value);
    objects_.Format(value);
    values().UseText(text);
  }
  void Join(absl::Span<PyObject* const> texts) override {
    sources_.Join(texts);
    for (PyObject* text : texts) values().UseText(text);
  }
  void Inspect(PyObject* object) override {
    if (loops_.IsLengthOfListed(object)) return;
    Use(object);
    loops_.TakeReturned(object);
    objects_.Inspect(object);
  }
  void Hash(PyObject* key) override {
    values().UseText(key);
    identity_.Identify(key);
    ways_.Find(key);
    if (!values().IsAddress(key)) Inspect(key);
  }
  void TakeReturned(PyObject* object) override {
    loops_.TakeReturned(object);
    ways_.Look(object);
    sizes_.SeeDeep(object);
    values().MarkExactDeep(object);
  }
  void MakeIterator(PyObject* object) override {
    ways_.MakeIterator();
    if (loops_.MakeIterator(object)) return;
    Use(object);
    objects_.Touch(object);
  }
  void BeginRound(int64_t loop, absl::Span<PyObject*> variables,
                  absl::Span<PyObject* const> operands) override {
    loops_.BeginRound(loop, variables, operands);
  }
  void LeaveLoop(int64_t loop, bool by_condition,
                 absl::Span<PyObject*> variables,
                 absl::Span<PyObject* const> operands) override {
    loops_.LeaveLoop(loop, by_condition, variables, operands);
  }
  void Advance(PyObject* iterator, absl::Span<PyObject*> variables,
               absl::Span<PyObject* const> operands,
               absl::Span<PyObject* const> generators) override {
    ways_.Look(iterator);
    if (loops_.Advance(iterator, variables, operands, generators)) return;
    Use(iterator);
    objects_.Touch(iterator);
  }
  void Touch(PyObject* object) override {
    Use(object);
    loops_.Look(object);
    ways_.Look(object);
    objects_.Touch(object);
  }
  void TouchDeep(PyObject* object) override {
    loops_.Look(object);
    ways_.Look(object);
    sizes_.SeeDeep(object);
    objects_.Touch(object, kDeep);
  }
  void AddYoung(PyObject* object) override { ages().AddYoung(object); }
  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names = nullptr) override;
  PyRef TakeInPlaceOfCall() override {
    return std::move(ground_.step.in_place_of_call);
  }
  void HandOver(absl::Span<PyObject*> args) override {
    host_calls_.HandOver(args);
  }
  void Raised(PyObject* error) override {
    loops_.Raised();
    host_calls_.Raised();
    calls_.Raised(error);
  }
  int64_t NumForks() override { return ways_.num_forks(); }
  int64_t TakeForks(int64_t num_before) override {
    return ways_.TakeForks(num_before);
  }
  void JoinWays(int64_t since, absl::Span<PyObject* const> variables,
                absl::Span<PyObject* const> operands) override {
    ways_.Join(since, variables, operands);
  }
  bool TakeAbort() override { return later_pass_.TakeAbort(); }
  bool IsFollowedCall(PyObject* callable) override {
    return CallWatch::IsFollowedCall(callable);
  }
  bool Moves(PyObject* callable) override { return CallWatch::Moves(callable); }
  bool TakesItemsOf(PyObject* callable, PyObject* iterator) override {
    return calls_.TakesItemsOf(callable, iterator);
  }
  PyRef CallWithItems() override { return FunctionInPython("call_with_items"); }
  void Import(PyObject* name) override { places_.Import(name); }

  // What all parts share.
  Refusals& refusals() { return ground_.refusals; }
  const Refusals& refusals() const { return ground_.refusals; }
  ObjectNames& names() { return ground_.names; }
  ObjectAges& ages() { return ground_.ages; }
  StateGuards& guards() { return ground_.guards; }
  const StateGuards& guards() const { return ground_.guards; }
  HostValues& values() { return ground_.values; }
  // The first, if there is one.
  const Refusal& refusal() const { return refusals().first(); }
  // A readable expression for a tensor of the state.
  std::string TensorName(PyObject* tensor) { return names().PathOf(tensor); }

  // The parts that are set up before a run, and tell of it afterwards.
  LastCalls& last_calls() { return last_calls_; }
  LaterPassWatch& later_pass() { return later_pass_; }
  ContainerChanges& containers() { return containers_; }
  WrittenPlaces& written() { return written_; }
  CacheUses& caches() { return caches_; }
  IdentityWatch& identity() { return identity_; }
  const HookHandles& handles() const { return handles_; }
  ArrayWatch& arrays() { return arrays_; }
  NumberWatch& numbers() { return numbers_; }
  SizeWatch& sizes() { return sizes_; }
  LoopWatch& loops() { return loops_; }
  WayWatch& ways() { return ways_; }
  TensorWatch& tensors() { return tensors_; }
  HostCallWatch& host_calls() { return host_calls_; }
  DrawWatch& draws() { return draws_; }
  const DrawWatch& draws() const { return draws_; }
  BuiltinCalls& builtins() { return builtins_; }

  // Of the step at hand; see WatchStep.
  bool is_making_tensor() const { return ground_.step.is_making_tensor; }
  bool is_allocating() const { return ground_.step.is_allocating; }
  bool is_annotated_call() const { return ground_.step.annotated != nullptr; }

 private:
  // What a container has, or whether it has that, is C code's to find.
  void LookForItem(PyObject* container, PyObject* key);
  // A method of a list's may change it.
  void UseOwner(PyObject* callable, absl::Span<PyObject* const> args);
  void Use(PyObject* object) {  // C code looks at it.
    sizes_.See(object);
    values().UseText(object);
  }

  WatchGround ground_;
  std::function<void(PyObject**, bool)> on_step_end_;
  SizeWatch sizes_;
  LoopWatch loops_;
  WayWatch ways_;
  LastCalls last_calls_;
  ContainerChanges containers_;
  DyingObjects dying_;
  WrittenPlaces written_;
  CacheUses caches_;
  HookHandles handles_;
  IdentityWatch identity_;
  LaterPassWatch later_pass_;
  ArrayWatch arrays_;
  PlaceWatch places_;
  ObjectWatch objects_;
  NumberWatch numbers_;
  ArrayArithmetic arithmetic_;
  NumberFunctions functions_;
  TensorWatch tensors_;
  AttributeWatch attributes_;
  ItemWatch items_;
  HostCallWatch host_calls_;
  DrawWatch draws_;
  GrownReads grown_;
  TableReads tables_;
  GeneratorWatch generators_;
  MessageWatch messages_;
  TextWatch texts_;
  TextSources sources_;
  AnnotatedCalls annotated_;
  BuiltinCalls builtins_;
  CallWatch calls_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_STATE_WATCH_H_
