// What a running program reads of the world outside its arguments.

#ifndef MICA_PYTHON_CAPTURE_WATCH_STATE_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_STATE_WATCH_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "python/capture/effects/draws.h"
#include "python/capture/effects/effects.h"
#include "python/capture/guards/gradients.h"
#include "python/capture/guards/state_guards.h"
#include "python/capture/known/asked_states.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/passed_numbers.h"
#include "python/capture/values/places.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"
#include "python/interpreter/stream.h"
#include "python/torch_side/autograd/autograd_access.h"

namespace mica {

// Listens to an InterpreterStream and turns each read of an object that is
// older than the run into a fact of StateGuards, before the program can change
// it. What the program then changes is found by checking the facts again after
// the run. What can be neither noted nor proven harmless is refused: calls of
// C functions that no table lists, objects of unknown kind.
//
// Objects that the run made itself need no facts: each run makes them anew.
// Those that came in as arguments have guards of their own. Single-thread.
class StateWatch final : public StreamListener {
 public:
  // `caller` is the frame that the watched run is called from; may be null.
  explicit StateWatch(PyFrameObject* caller);

  // An object whose contents the input guards cover.
  void AddInput(PyObject* object) { inputs_.insert(object); }
  // An object that is the same at each run, such as the callable itself.
  void AddRoot(PyObject* object, std::string path);
  // An object that the collector doesn't track and that the run just made.
  void AddYoung(PyObject* object) override { young_.insert(object); }
  // A readable name for a tensor or a module, in place of how it was reached.
  void AddName(PyObject* object, std::string name);

  // Gives the tensors of a module, if `object` is one, and of those in it the
  // names that its state_dict() has, below `prefix`.
  void NameModule(PyObject* object, const std::string& prefix, int depth = 0);

  // What to do with a new tensor that holds Python's values only.
  void SetOnMade(std::function<void(PyObject*)> on_made) {
    on_made_ = std::move(on_made);
  }

  // What there was to be asked before the run. Outlives the watch.
  void SetAsked(const AskedStates* asked) { asked_ = asked; }
  const AskedStates* asked() const { return asked_; }
  // Places that are read as arguments are. Outlives the watch.
  void SetSlots(const Slots* slots) { slots_ = slots; }
  // Numbers to follow as inputs; others are constants. Outlives the watch.
  void SetVarying(const VaryingNumbers* varying) { varying_ = varying; }
  // Called around each call that is made again at hits: what that does itself
  // belongs to no record.
  void SetOnHostCall(std::function<void(bool begins)> f) {
    on_host_call_ = std::move(f);
  }
  // How many operators the run has called.
  void SetNumCalls(std::function<int64_t()> f) { num_calls_ = std::move(f); }
  // Whether numbers are followed at all; and those that are drawn, which else
  // end the graph.
  void SetFollows(bool numbers, bool draws) {
    follows_numbers_ = numbers;
    follows_draws_ = draws;
  }
  // What the program is to be told by what it asks (Draw::Kind::kAsk, kClock),
  // in order. Outlives the watch.
  void SetReadings(absl::Span<const PyRef> readings) { readings_ = readings; }
  // What else is to be done when a step is over; see EndStep().
  void SetOnStepEnd(std::function<void(PyObject** result, bool entered)> f) {
    on_step_end_ = std::move(f);
  }

  // The stream's events.
  void BeginStep() override {
    num_host_calls_ = host_calls_.size();
    is_making_tensor_ = makes_constant_ = shares_array_ = makes_array_ = false;
    makes_iterator_ = is_allocating_ = gives_address_ = false;
    makes_new_ = false;
    takes_from_array_ = false;
    stored_ = nullptr;
    host_op_ = nullptr;
    host_operands_.clear();
    annotated_ = nullptr;
    passed_.clear();
    passes_tensors_ = false;
  }
  void EndStep(PyObject** result, bool entered) override;
  void CameBack(PyObject* result) override;
  // What the step runs, runs again at each hit; or an annotation stands for it.
  bool StepsOver() override {
    return host_calls_.size() != num_host_calls_ || annotated_ != nullptr;
  }
  bool Follows(PyObject* function) override {
    return KindOfFunction(function) != FunctionKind::kBookkeeping;
  }
  bool WantsMore() override { return !is_stopped() || LookOn(); }
  void EnterFunction(PyObject* function) override;
  // A constant may be the very object that came from elsewhere.
  void LoadConstant(PyObject* constant) override {
    values_.MarkExactDeep(constant);
  }
  void ReadGlobal(PyObject* globals, PyObject* builtins,
                  PyObject* name) override;
  void WriteGlobal(PyObject* globals, PyObject* name) override;
  void ReadAttribute(PyObject* owner, PyObject* name) override;
  void WriteAttribute(PyObject* owner, PyObject* name) override;
  void RemoveAttribute(PyObject* owner, PyObject* name) override;
  void ReadCell(PyObject* cell, PyObject* name) override;
  void WriteCell(PyObject* cell, PyObject* name) override;
  void UseItem(PyObject* container, PyObject* key) override;
  void Contains(PyObject* container, PyObject* item) override;
  void WriteItem(PyObject* container, PyObject* key, PyObject* value) override;
  void RemoveItem(PyObject* container, PyObject* key) override;
  void Store(PyObject* owner, PyObject* value) override;
  // The step at hand may change `container`, if that is old.
  void NoteChange(PyObject* container) override;
  void BeginIncrement(PyObject* addend) override {
    addend_ = addend;
    took_addend_ = false;
  }
  // True if what was read is a number in a place of the state.
  bool EndIncrement() override {
    addend_ = nullptr;
    return took_addend_;
  }
  void SetStoresSum(bool stores) override { stores_sum_ = stores; }
  void Binary(const char* op, PyObject* a, PyObject* b) override;
  void Negate(PyObject* number) override;
  void CompareNumbers(Order order, PyObject* a, PyObject* b) override;
  void Compare(PyObject** a, PyObject** b) override;
  void TestTruth(PyObject* object) override;
  void Format(PyObject* object) override;
  void Inspect(PyObject* object) override;
  void Hash(PyObject* key) override {
    Identify(key);
    if (!values_.IsAddress(key)) Inspect(key);
  }
  void TakeReturned(PyObject* object) override {
    values_.MarkExactDeep(object);
  }
  void Touch(PyObject* object) override { TouchObject(object, kShallowDepth); }
  void TouchDeep(PyObject* object) override { TouchObject(object, kDeepDepth); }
  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names = nullptr) override;
  PyRef TakeInPlaceOfCall() override { return std::move(in_place_of_call_); }
  void HandOver(absl::Span<PyObject*> args) override;
  void Raised() override {
    if (makes_host_call_) Refuse("calls into the world outside, which raises");
  }
  bool IsFollowedCall(PyObject* callable) override;
  bool Moves(PyObject* callable) override;
  bool TakesItemsOf(PyObject* callable, PyObject* iterator) override;
  void Import(PyObject* name) override;
  void Refuse(std::string reason, std::string mend = "") override;

  HostValues& values() { return values_; }
  // Refuses a run that used the address of an object in any way but for the
  // object. Requires: the run is over, and all that it left was looked at.
  void CheckAddresses();
  // Known numbers that the step at hand passes to an operator.
  absl::Span<const PassedNumbers> passed() const { return passed_; }
  // True if it passes tensors, any of which torch may take for a number.
  bool passes_tensors() const { return passes_tensors_; }
  // True if the step at hand calls a function that an annotation stands for:
  // no look into it, and what it returns follows from no single number.
  bool is_annotated_call() const { return annotated_ != nullptr; }

  // The first, if there is one.
  const Refusal& refusal() const {
    return refused_.empty() ? refusal_ : refused_[0];
  }
  // Where the run was at steps that may have changed what it had read.
  const std::vector<FrameSites>& changes() const { return changes_; }
  // What stood in the way, in order; the run goes on after each but the last.
  std::vector<FrameSites> RefusedPlaces() const;
  // After a refusal: looks on for what else may be refused, if it may.
  // Requires: the record is given up. False if there is no point.
  bool LookOn();
  // Whether it may.
  void SetLooksOn(bool looks_on) { looks_on_ = looks_on; }
  bool is_stopped() const { return static_cast<bool>(refusal_); }

  // Between the two the stream follows functions in Python that a backward pass
  // calls, to be made again whenever a user goes back. They may read state, but
  // change nothing that was there before: where one is about to, an exception
  // is raised in its place. Requires: the run is over.
  void BeginLaterPass();
  // What they read, apart from what the run did; and why such a pass can't be
  // made again, if it can't.
  StateGuards EndLaterPass(Refusal* refusal);
  bool TakeAbort() override;

  StateGuards& guards() { return guards_; }
  const StateGuards& guards() const { return guards_; }
  // True if `object` was there before the run and isn't part of an argument.
  bool IsOld(PyObject* object);
  // The same, but false where nothing tells: of an object that the collector
  // doesn't track and that nothing older led to.
  bool IsKnownOld(PyObject* object) {
    return IsOld(object) && old_.contains(object);
  }
  // What the run reached that was there before it.
  std::vector<PyObject*> OldObjects() const {
    return {old_.begin(), old_.end()};
  }
  bool IsInput(PyObject* object) const { return inputs_.contains(object); }
  // The same, but false if the program found it in its state, too: that holds
  // the same object at each run.
  bool IsFreeInput(PyObject* object) const {
    return IsInput(object) && !state_inputs_.contains(object);
  }
  // Arguments that are taken apart and of which the program asked which object
  // they are.
  const absl::flat_hash_set<PyObject*>& identified() const {
    return identified_;
  }
  // Pairs of equal numbers or texts that the program compared by identity.
  const std::vector<std::pair<PyRef, PyRef>>& compared_constants() const {
    return compared_constants_;
  }
  // Objects older than the run that one of `objects` might be in another call:
  // those of its class. Those that only weak references led to may be gone.
  absl::flat_hash_set<PyObject*> OthersThan(
      const absl::flat_hash_set<PyObject*>& objects) const;
  // True while the step at hand fills new tensors with Python's values: then
  // memory that no operator wrote holds constants.
  bool is_making_tensor() const { return is_making_tensor_; }
  // True while the step at hand is the program's own torch.empty or its like.
  bool is_allocating() const { return is_allocating_; }
  // Arguments that the program also found in its state.
  const absl::flat_hash_set<PyObject*>& state_inputs() const {
    return state_inputs_;
  }
  // Whether it asked where a tensor lies in its storage.
  bool reads_offsets() const { return reads_offsets_; }
  GradientWatch& gradients() { return gradients_; }
  // Places that the program set, in the order in which it first did.
  absl::Span<const StatePlace> written() const { return written_; }
  // Whether it removed one of them, before it set it perhaps.
  bool HasRemoved(const StatePlace& place) const {
    return removed_keys_.contains({place.holder.get(), place.key.get()});
  }
  // Numbers that it only added constants to. False, with a reason, if one isn't
  // what that would make of it. Notes those that it also read otherwise.
  bool FinishIncrements(std::vector<Increment>* increments,
                        std::string* reason);
  // Of a run that is refused: places that had better be slots.
  absl::Span<const StatePlace> wanted_slots() const { return wanted_slots_; }
  // Changes to containers of which it had read nothing.
  const std::vector<ContainerCall>& container_calls() const {
    return container_calls_;
  }
  // False, with a reason, if one isn't what these calls make of it.
  bool CheckContainers(std::string* reason);
  // Containers that it changed by methods that are known, as they were before.
  const absl::flat_hash_map<PyObject*, PyRef>& changed_containers() const {
    return changed_containers_;
  }
  const std::vector<HostCall>& host_calls() const { return host_calls_; }
  // What it drew, in order.
  const std::vector<Draw>& draws() const { return draws_; }
  // Their arguments that are made again at each hit, in order.
  absl::Span<const PyRef> host_arguments() const { return host_arguments_; }
  // How many of them are of calls that come first (Effects).
  size_t num_first_arguments() const { return num_first_arguments_; }
  // A tensor that a last call was given and that was written since; "" if
  // there is none.
  std::string ChangedArgument() const;
  // False, refused, if the run changed a container that a first call shows, or
  // read one that such a call changes.
  bool CheckShown();
  // False, refused, if a functools.lru_cache computed something.
  bool CheckCaches();
  // Whether a call runs code of the user's; it and what follows come last.
  bool has_last_calls() const { return user_call_.has_value(); }
  // False, refused, if an operator after the first of them uses memory that it
  // may have changed. `tensors` are those that have `ids` in the tape.
  bool CheckLastCalls(const Tape& tape, absl::Span<PyObject* const> tensors,
                      absl::Span<const TapeTensorId> ids);
  void RefuseUserCall(const std::string& why);
  // Has the first `num_made` calls into the world outside not made again; the
  // next raises `error`.
  void SetMuted(size_t num_made, PyRef error) {
    muted_ = {num_made, std::move(error)};
  }
  // Of a tensor whose memory a numpy array shares and that isn't as it was
  // then;
  // "" if there is none.
  std::string ChangedExposed() const;
  // Set where it had hooks see what autograd saves: going back calls them.
  const Refusal& saved_tensor_hooks() const { return saved_tensor_hooks_; }
  // Graphs of autograd that the program used up.
  const ReleasedGraphs& released_graphs() const { return released_; }
  // All tensors that the program found in its state, used or not.
  const std::vector<PyRef>& state_tensors() const { return state_tensors_; }
  // Lists, dicts, sets and objects of Python's classes that are older than the
  // run and were reached otherwise than as arguments.
  absl::flat_hash_set<PyObject*> OldContainers() const;
  // True if what is old and what is new could no longer be told.
  bool is_disturbed() const { return age_.IsDisturbed(); }
  // A readable expression for an old object: "self.config".
  std::string PathOf(PyObject* object) const;
  std::string TensorName(PyObject* tensor) const;

 private:
  // Depths: an operand, and an argument of a C function, are looked at; what
  // they hold is looked at for the latter only.
  static constexpr int kShallowDepth = 0;
  static constexpr int kDeepDepth = 1;

  void TouchObject(PyObject* object, int depth);
  // A dict, list, tuple, set or deque, or of a class that builds on one.
  static bool IsContainer(PyObject* object);
  // Of C's: an iterator or a dict's view, which gives what others hold.
  static bool GivesItems(PyObject* object);
  void TouchContainer(PyObject* object, int depth);
  // What an iterator, or a dict's view, that the run made will give.
  void TouchSources(PyObject* iterator, int depth);
  // Compares by value, or hashes: containers that `object` holds, not objects.
  void LookInto(PyObject* object, int depth);
  void TouchInstance(PyObject* object);
  // The step at hand asks which object this is: by `is`, `==`, a hash, a weak
  // reference. All such questions come here. An argument that is taken apart is
  // then guarded to be none of the objects of the state.
  void Identify(PyObject* object);
  // The same for all that code in C finds in it.
  void IdentifyDeep(PyObject* object);
  // The same of two constants: equal ones may be one object or not.
  void IdentifyConstants(PyObject* a, PyObject* b);
  // Refuses to look for a NaN among others: it is found by identity alone.
  void LookFor(PyObject* item);
  // The step at hand calls hash().
  void TakeHash(PyObject* object);
  void TouchType(PyTypeObject* type);
  // Notes which class an older object is of.
  void TouchClassOf(PyObject* object);
  // The classes of a call's arguments, and of what is in those that are tuples.
  void TouchClasses(absl::Span<PyObject* const> args);
  // A function of torch's or Python's state: what it gave before the run.
  void AskAgain(PyObject* callable, absl::Span<PyObject* const> args);
  void AddAnswer(const AskedStates::Answer& answer);
  // An operator of Python's is about to be applied to `operand`.
  void CheckOperand(PyObject* operand);
  // What numpy does on overflow, division by 0 and the like.
  void TouchNumpyContext();
  void MarkOld(PyObject* object, const std::string& path);
  std::string ItemPath(const std::string& owner, PyObject* key) const;
  void MarkContents(PyObject* container);
  GuardNote NoteOf(std::string path) const;
  bool ReadTensorAttribute(PyObject* owner, PyObject* name);
  void TouchGradient(PyObject* owner);
  // Removing an attribute reads it too: it has to be there.
  enum class Use { kRead, kWrite, kRemove };
  void RunBackward(absl::Span<PyObject* const> args);
  // In a later pass: refuses to change `object`, unless the pass made it.
  bool RefusesLaterChange(PyObject* object);
  // In a later pass: refuses the use of a place of the state that it sets, or
  // that the run did.
  bool RefusesLaterUse(PyObject* holder, PyObject* key, const std::string& path,
                       Use use);
  void RequireGrad(absl::Span<PyObject* const> args);
  void UseAttribute(PyObject* owner, PyObject* name, Use use);
  void UseInstanceAttribute(PyObject* owner, PyObject* name, Use use);
  // Reads or writes an item of an older dict, which is known as `path`.
  void UseDictItem(PyObject* dict, PyObject* key, const std::string& path,
                   Use use);
  bool IsWritten(PyObject* holder, PyObject* key) const;
  // An equal key that is the same object each time that it is asked for.
  PyRef Canonical(PyObject* key);
  // True if a place's use is that of a slot, or a step of an increment.
  bool UseSpecially(PyObject* holder, PyObject* key, const std::string& path,
                    Use use);
  void WritePlace(PyObject* holder, PyRef key, const std::string& path);
  // If it is a list that the run changed, whose items had better be read as
  // arguments are: notes that.
  void WantList(PyObject* container);
  // A method call that changes an older container; false if it is none such.
  bool ChangeContainer(PyObject* method, absl::Span<PyObject* const> args);
  void ReadLengths(PyObject* lengths);
  void MarkHeldDict(PyObject* owner, PyObject* name);
  bool UseDescriptor(PyObject* owner, PyObject* name, PyObject* descriptor);
  // The arguments of a call that makes a tensor of Python's values.
  void MakeTensor(absl::Span<PyObject* const> args, bool copies = false);
  void CallType(PyTypeObject* type, absl::Span<PyObject* const> args);
  void CallBuiltin(PyObject* callable, absl::Span<PyObject* const> args,
                   PyObject* keyword_names);
  // A method of a dict that reads, sets or removes one item.
  void UseItemBy(PyObject* method, absl::Span<PyObject* const> args);
  // The further arguments of a call that looks at its arguments, not into them.
  void Move(PyObject* callable, absl::Span<PyObject* const> args);
  void CallAnnotated(const CallAnnotation& known, PyObject* callable,
                     absl::Span<PyObject* const> args, PyObject* keyword_names);
  void CallHost(PyObject* callable, absl::Span<PyObject* const> args,
                PyObject* keyword_names, Sink sink = {});
  void Print(PyObject* print, absl::Span<PyObject* const> args,
             PyObject* keyword_names);
  void Warn(absl::Span<PyObject* const> args, PyObject* keyword_names);
  void Log(PyObject* method, absl::Span<PyObject* const> args,
           PyObject* keyword_names);
  // Reads all numbers of a tensor, as item() would. False if they are many.
  bool ReadNumbers(PyObject* tensor);
  void ReadData(PyObject* reader, absl::Span<PyObject* const> args);
  // A method of a random generator, which is the first argument.
  void DrawNumber(PyObject* callable, absl::Span<PyObject* const> args,
                  PyObject* keyword_names);
  // torch.manual_seed() or a method of a torch.Generator, done by operators.
  void CallGenerator(PyObject* callable, absl::Span<PyObject* const> args,
                     PyObject* keyword_names);
  // What such a call takes: a state or a seed. False if it is neither.
  bool PassToGenerator(absl::string_view word, PyObject* value);
  // torch.Generator().
  void MakeGenerator(PyTypeObject* type, absl::Span<PyObject* const> args);
  // Gives a number of the world outside.
  void Ask(CallKind kind, PyObject* callable, absl::Span<PyObject* const> args,
           PyObject* keyword_names);
  // Notes a draw, to be made at each hit; of its generator if it has one.
  void AddDraw(Draw::Kind kind, PyObject* callable,
               absl::Span<PyObject* const> args, PyObject* keyword_names);
  // What is to be passed again for an argument; null if that isn't known.
  PyRef ArgumentOfDraw(Draw::Kind kind, PyObject* argument);
  // The step at hand has drawn what is on top.
  void EndDraw(PyObject** top);
  // A tensor whose memory numpy can write too.
  void Expose(PyObject* tensor);
  // After a step with numpy's arrays: refuses what was written past torch, even
  // if it is undone later.
  void CheckSharedMemory();
  // Notes a call to be made at each hit, of constants, objects of the program's
  // state, numbers that are followed and tensors.
  void AddHostCall(PyObject* callable, absl::Span<PyObject* const> args,
                   PyObject* keyword_names, std::string title, Sink sink);
  void AddHostArgument(PyRef argument, PyRef shown, int64_t version,
                       HostCall* call);
  void AddTensorArgument(PyObject* tensor, HostCall* call);
  void TouchPassed(PyObject* tensor);
  // Notes the containers of an older object that a call makes text of. False
  // if that may run code of the user's.
  bool MayShow(PyObject* object);
  // C code runs none of the user's if it doesn't look into what it gets.
  static Sink SinkInC(PyObject* callable, absl::Span<PyObject* const> args);
  static bool IsLruCache(PyObject* object);
  // Calls what functools.lru_cache made: a hit calls it again, so that the
  // cache knows what was used last.
  void CallCached(PyObject* wrapper, absl::Span<PyObject* const> args,
                  PyObject* keyword_names);
  void UseCache(PyObject* wrapper, int num_calls);
  Sink SinkOfWarning(PyObject* category);
  Sink SinkOfLog(PyObject* logger, PyObject* level);
  // Code of the user's is about to find numbers that are followed: each of
  // their places has the program's own until TakeNumbersBack().
  void LendNumbers();
  void TakeNumbersBack();
  // Has the call at hand not made, if SetMuted() said so.
  void Mute();
  // The step at hand runs code of the user's, which may read and change
  // anything.
  void BeginLastCalls(std::string title);
  // After that: something is used, read or looked at that it may have changed.
  void NoteLateUse(PyObject* object);
  void NoteLateRead(PyObject* value, const std::string& path);
  void NoteLateGlobal(PyObject* globals, PyObject* builtins, PyObject* name);
  void NoteLateAttribute(PyObject* owner, PyObject* name);
  void NoteLateTouch(PyObject* object);
  // A callable that C code may call behind the stream's back.
  // What a builtin method is bound to, which is as old as that; or null.
  PyRef SelfOfCall(PyObject* callable);
  void CheckCallback(PyObject* callable);
  void RefuseAddress() {
    Refuse("uses id() of an object that differs from run to run");
  }
  // A function of TorchScript; operator.attrgetter's objects.
  void CallScript(PyObject* function, absl::Span<PyObject* const> args);
  void GetAttributes(PyObject* getter, absl::Span<PyObject* const> args,
                     bool is_in_c_code);
  // C code gets `args`; an attribute getter among them it may call with the
  // items of the others.
  void TouchArgs(absl::Span<PyObject* const> args);
  // The step at hand calls id() of `object`, or hash() of what has that hash.
  void TakeAddress(PyObject* object);
  // True for an address that a set or a dict of the run's own takes as a key.
  bool IsOwnKey(PyObject* container, PyObject* key);
  bool KeepsAddress(PyObject* method, absl::Span<PyObject* const> args);
  // object.__reduce_ex__: of an instance of a class of Python's.
  void Reduce(PyObject* callable, absl::Span<PyObject* const> args);
  void RefuseCall(PyObject* callable);

  // True if `key` of `object` came by before, and that is all there is to it.
  bool IsKnown(PyObject* object, PyObject* key) {
    return counters_.empty() && addend_ == nullptr && !IsFirst(object, key);
  }
  // True the first time that `key` of `object` comes by: facts noted before
  // need no second look. Both stay alive, so that an address names one object.
  bool IsFirst(PyObject* object, PyObject* key) {
    if (!seen_.insert({object, key}).second) return false;
    pins_.push_back(PyRef::Share(object));
    if (key != nullptr) pins_.push_back(PyRef::Share(key));
    return true;
  }

  // Notes an item of a dict: its value, or that it is a varying number.
  void AddItem(PyObject* dict, PyObject* key, GuardNote note);
  void CallGave(PyObject* result);
  // An array that numpy gave: a new one, unless it is one of its arguments.
  void AddNewArray(PyObject* array);
  // Whether a call of a builtin only asks which of its numbers is larger or
  // whether one is finite; noted if so.
  bool AskOfNumbers(PyObject* function, absl::Span<PyObject* const> args);
  // The same of bisect(), for the place of a number among others.
  bool AskForPlace(const std::string& function,
                   absl::Span<PyObject* const> args);
  // Whether sum() is of few numbers; computed if so.
  bool AddUp(absl::Span<PyObject* const> args);
  // Whether a call of a builtin rounds a known number, or takes it without its
  // sign; computed if so.
  bool Round(const std::string& function, absl::Span<PyObject* const> args);
  // `is_operand`: of an operator in Python (a + b), not of a call.
  void PassNumber(PyObject* number, bool is_operand = false);
  // Puts the object that eager would have met in place of a number that is
  // followed. False if which object that is doesn't follow from its value.
  bool Share(PyObject** number);
  // The same for all arguments of a call.
  bool ShareNumbers(absl::Span<PyObject* const> args);
  // Passes a float that is followed, alone or alone in a list, to the operator
  // that makes a tensor of it. False if `data` is none such.
  bool PassNumberOf(PyObject* data);
  // The step at hand sets an attribute or an item to `value`: unless that stays
  // there as it is, its numbers are passed to an operator or made exact.
  void StoreAttribute(PyObject* owner, PyObject* name, PyObject* value);
  void StoreItem(PyObject* container, PyObject* value);
  // `items` is a list or tuple with known numbers among its items.
  void PassNumbers(PyObject* items);
  // The step at hand computes `op` of numbers, one of them known.
  void Compute(const HostOp* op, absl::Span<PyObject* const> operands);

  const PyFrameObject* caller_;
  PyRef warning_filters_;                   // The list when the run began,
  std::array<PyObject*, 3> warning_shown_;  // and what showed warnings.
  const VaryingNumbers* varying_ = nullptr;
  HostValues values_;
  std::function<void(PyObject**, bool)> on_step_end_;
  std::function<void(bool)> on_host_call_;
  bool makes_host_call_ = false;     // The step at hand.
  const HostOp* host_op_ = nullptr;  // Of the step at hand.
  std::vector<PyRef> host_operands_;
  std::vector<PassedNumbers> passed_;
  bool passes_tensors_ = false;
  const Slots* slots_ = nullptr;
  const AskedStates* asked_ = nullptr;
  PyObject* addend_ = nullptr;
  bool took_addend_ = false;
  bool stores_sum_ = false;
  bool reads_offsets_ = false;
  bool makes_iterator_ = false;  // The step at hand, if it gives one.
  bool makes_new_ = false;       // It gives a new object that isn't tracked.
  bool is_allocating_ = false;
  bool gives_address_ = false;             // The step at hand calls id().
  std::vector<FrameSites> address_sites_;  // Where the run called it,
  UserLine address_at_;                    // first here.
  bool is_making_tensor_ = false;
  bool makes_constant_ = false;
  const CallAnnotation* annotated_ = nullptr;  // Of the step at hand's call.
  bool shares_array_ = false;      // The tensor that the step at hand makes.
  bool makes_array_ = false;       // It may give a new numpy array.
  bool takes_from_array_ = false;  // It gives a view of one, or its flags.
  PyObject* stored_ = nullptr;     // What the step at hand stores. Borrowed.
  std::function<void(PyObject*)> on_made_;
  AgeMark age_;
  StateGuards guards_;
  GradientWatch gradients_;
  ReleasedGraphs released_;
  void NoteSavedTensorHooks();
  Refusal saved_tensor_hooks_;
  std::vector<HostCall> host_calls_;
  size_t num_host_calls_ = 0;  // Before the step at hand.
  std::vector<Draw> draws_;
  bool is_drawing_ = false;  // The step at hand makes the last of them.
  bool follows_numbers_ = true;
  bool follows_draws_ = true;
  std::function<int64_t()> num_calls_;
  absl::Span<const PyRef> readings_;  // Those that are left.
  std::vector<PyRef> host_arguments_;
  size_t num_first_arguments_ = 0;
  std::vector<int64_t> argument_versions_;  // -1 for what may be written.
  std::vector<int64_t> argument_calls_;     // Operators called before it.
  struct ShownContainer {
    PyRef container;
    FrameSites places;
    bool may_not_be_read = false;
  };
  std::vector<ShownContainer> shown_containers_;
  struct CacheUse {
    PyRef wrapper;
    int64_t hits = 0, misses = 0;  // Before the run.
    int64_t num_calls = 0;
    UserLine at;
    FrameSites places;
  };
  std::vector<CacheUse> cache_uses_;
  // The first call that runs the user's code.
  struct UserCall {
    std::string title;
    UserLine at;
    FrameSites places;
    int64_t num_calls = 0;  // Operators called before it.
  };
  std::optional<UserCall> user_call_;
  struct Muted {
    size_t num_made = 0;
    PyRef error;
  };
  std::optional<Muted> muted_;
  PyRef in_place_of_call_;
  struct Lent {
    StatePlace place;
    PyRef number;
    PyRef plain;
  };
  std::vector<Lent> lent_;
  struct Exposed {
    PyRef tensor;
    int64_t version = 0;
    std::string bytes;
  };
  std::vector<Exposed> exposed_;
  std::vector<StatePlace> written_;
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> written_keys_;
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> removed_keys_;
  std::vector<Increment> counters_;
  std::vector<StatePlace> wanted_slots_;
  absl::flat_hash_map<std::pair<PyObject*, PyObject*>, size_t> counter_index_;
  PyRef keys_;  // Canonical ones: a dict of each to itself.
  std::vector<ContainerCall> container_calls_;
  absl::flat_hash_map<PyObject*, PyRef> changed_containers_;  // Copies.
  // Those whose contents before the run nobody noted,
  absl::flat_hash_set<PyObject*> unread_containers_;
  absl::flat_hash_set<PyObject*> written_dicts_;
  // Old containers that a method in C may have changed: what is in them now may
  // differ from what a hit begins with.
  absl::flat_hash_set<PyObject*> changed_by_call_;
  Refusal refusal_;               // The one that stopped the watch.
  std::vector<Refusal> refused_;  // Those after which it looked on.
  bool looks_on_ = false;
  // Of a later pass, what the run's own are put aside for.
  struct LaterPass {
    AgeMark age;
    StateGuards guards;
    absl::flat_hash_set<std::pair<PyObject*, PyObject*>> seen;
    size_t num_asked = 0;  // As NumAsked() was.
    Refusal refusal;
  };
  std::unique_ptr<LaterPass> later_;  // Null: none is under way.
  // How often the program asked which object an argument is.
  size_t NumAsked() const {
    return state_inputs_.size() + identified_.size() +
           compared_constants_.size();
  }
  std::vector<FrameSites> changes_;
  absl::flat_hash_set<PyObject*> inputs_;
  absl::flat_hash_set<PyObject*> state_inputs_;
  absl::flat_hash_set<PyObject*> identified_;
  std::vector<std::pair<PyRef, PyRef>> compared_constants_;
  // What weak references of the state stand for; not dereferenced.
  absl::flat_hash_set<PyObject*> weakly_held_;
  std::vector<PyRef> state_tensors_;
  absl::flat_hash_set<PyObject*> old_;
  absl::flat_hash_set<PyObject*> young_;
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> seen_;
  std::vector<PyRef> pins_;  // Addresses in `old_` stay taken.
  absl::flat_hash_map<PyObject*, std::string> paths_;
  absl::flat_hash_map<PyObject*, std::string> names_;
  absl::flat_hash_set<PyObject*> named_modules_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_STATE_WATCH_H_
