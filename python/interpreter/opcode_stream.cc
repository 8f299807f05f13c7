// The interpreter's stream: looks at the operands of every instruction before
// it runs. A trace function in C is told of calls and returns, and of
// instructions on CPython 3.11; later versions announce them as step_events.h
// says. The events come with the value stack in place.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/handing_on.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/step_events.h"
#include "python/interpreter/stream.h"

namespace mica {
namespace {

class OpcodeStream;
thread_local OpcodeStream* running = nullptr;

class OpcodeStream final : public InterpreterStream {
 public:
  explicit OpcodeStream(StreamListener* listener) : listener_(*listener) {}
  ~OpcodeStream() override { Stop(); }

  void Start() override {
    if (!StartStepEvents(&OpcodeStream::OnStep)) {
      return listener_.Refuse("no tool of sys.monitoring's is free");
    }
    PyRef self = PyRef::Steal(PyCapsule_New(this, nullptr, nullptr));
    started_ = true;
    running = this;
    PyEval_SetTrace(&OpcodeStream::Trace, self.get());
  }

  void Stop() override {
    if (!started_) return;
    started_ = false;
    running = nullptr;
    StopStepEvents();
    if (PyThreadState_Get()->c_tracefunc == &OpcodeStream::Trace) {
      PyEval_SetTrace(nullptr, nullptr);
    }
  }

 private:
  static int Trace(PyObject* self, PyFrameObject* frame, int what,
                   PyObject* arg) {
    auto* stream =
        static_cast<OpcodeStream*>(PyCapsule_GetPointer(self, nullptr));
    switch (what) {
      case PyTrace_CALL:
        frame->f_trace_lines = 0;
        if (stream->skipped_ != nullptr) break;
        if (stream->steps_over_ ||
            !stream->listener_.Follows(FunctionOf(frame->f_frame))) {
          stream->skipped_ = frame;
          break;
        }
        FollowSteps(frame);
        stream->listener_.EnterFunction(FunctionOf(frame->f_frame));
        break;
      case PyTrace_OPCODE:
        stream->Step(frame->f_frame);
        break;
      case PyTrace_RETURN:
        if (stream->skipped_ == frame) stream->skipped_ = nullptr;
        if (arg != nullptr &&
            stream->consuming_.contains(CallerOf(frame->f_frame))) {
          stream->listener_.Inspect(arg);
        } else if (arg != nullptr &&
                   stream->taking_.contains(CallerOf(frame->f_frame))) {
          stream->listener_.TakeReturned(arg);
        }
        if (arg != nullptr && stream->returns_to_ != nullptr &&
            CallerOf(frame->f_frame) == stream->returns_to_) {
          stream->listener_.TouchDeep(arg);
        }
        LeaveSteps(frame);
        frame->f_trace_lines = 1;
        return 0;
      case PyTrace_EXCEPTION:
        if (stream->skipped_ == nullptr) stream->listener_.Raised();
        return 0;
      default:
        return 0;
    }
    return stream->Aborts() ? -1 : 0;
  }

  static void OnStep() {
    OpcodeStream* stream = running;
    if (stream == nullptr || stream->skipped_ != nullptr) return;
    stream->Step(const_cast<Frame*>(RunningFrame()));
    static_cast<void>(stream->Aborts());
  }

  // True, with a Python error set, if the listener has the program end here.
  // Stops if it has seen enough.
  bool Aborts() {
    const bool aborts = listener_.TakeAbort();
    if (aborts) PyErr_SetString(PyExc_RuntimeError, "mica: not to be done");
    if (!listener_.WantsMore()) Stop();
    return aborts;
  }

  // Null, with a refusal, for code that can't be followed.
  const Instructions* InstructionsOf(PyCodeObject* code) {
    if (code == last_code_) return last_instructions_;
    auto& made = instructions_[code];
    if (made == nullptr) made = Instructions::Of(code);
    if (made == nullptr) {
      listener_.Refuse("runs code whose instructions can't be followed");
      return nullptr;
    }
    last_code_ = code;
    return last_instructions_ = made.get();
  }

  void Step(Frame* frame) {
    PyCodeObject* code = CodeOf(frame);
    const Instructions* instructions = InstructionsOf(code);
    const int at = UnitOf(frame);
    if (instructions == nullptr || at < 0) return;
    const Instruction& instruction = instructions->at(at);
    if (instruction.act == Act::kPartOfStep) return;
    const bool entered = std::exchange(frame_, frame) != frame;
    const int depth = NumOperands(frame, instruction.depth);
    if (depth < 0) {
      return listener_.Refuse("runs code whose instructions can't be followed");
    }
    top_ = frame->localsplus + code->co_nlocalsplus + depth;
    if (std::exchange(made_iterator_of_, nullptr) == frame &&
        !PyObject_IS_GC(Peek(1))) {
      listener_.AddYoung(Peek(1));  // Of a range.
    }
    if (entered && depth > 0) listener_.CameBack(Peek(1));
    listener_.EndStep(depth > 0 && !entered ? &top_[-1] : nullptr, entered);
    listener_.BeginStep();
    made_ = PyRef();
    if (returns_to_ == frame) returns_to_ = nullptr;
    if (!consuming_.empty()) consuming_.erase(frame);
    if (!taking_.empty()) taking_.erase(frame);
    if (storing_ == frame) {
      storing_ = nullptr;
      listener_.SetStoresSum(false);
    }
    if (sum_.frame == frame && sum_.store == at) {
      sum_.frame = nullptr;
      storing_ = frame;
      listener_.SetStoresSum(true);
    }
    if (!HandsOn(instruction)) taking_.insert(frame);
    if (instruction.is_increment) {
      const auto& increment = instructions->IncrementAt(at);
      listener_.BeginIncrement(increment.addend.get());
      Dispatch(instruction, code);
      if (listener_.EndIncrement()) {
        sum_ = {.frame = frame, .store = increment.store};
      }
    } else {
      Dispatch(instruction, code);
    }
    steps_over_ = listener_.StepsOver();
  }

  // The n-th operand from the top of the stack, from 1.
  PyObject* Peek(int n) const { return top_[-n]; }
  static PyObject* Name(PyCodeObject* code, int index) {
    return PyTuple_GET_ITEM(code->co_names, index);
  }
  static PyObject* Constant(PyCodeObject* code, int index) {
    return PyTuple_GET_ITEM(code->co_consts, index);
  }
  static PyObject* VariableName(PyCodeObject* code, int index) {
    return PyTuple_GET_ITEM(code->co_localsplusnames, index);
  }

  // True if Python code that the step at hand may run by way of C code returns
  // its results to the program as they are, not to that C code.
  bool HandsOn(const Instruction& instruction) const;
  void Dispatch(const Instruction& instruction, PyCodeObject* code);
  void Binary(int operation);
  // What Python code returns to the C code of a call may be looked at there.
  void NoteConsumer(PyObject* callable, absl::Span<PyObject* const> args) {
    if (listener_.IsFollowedCall(callable)) return;
    if (listener_.Moves(callable)) {
      bool hands_on = true;
      for (PyObject* arg : args) hands_on &= HandsOnItems(arg, Follows());
      if (hands_on) return;
    }
    consuming_.insert(frame_);
  }
  // Puts what the listener wants called in place of `*callable`.
  void Replace(PyObject** callable) {
    PyRef other = listener_.TakeInPlaceOfCall();
    if (other) Py_SETREF(*callable, other.release());
  }
  absl::FunctionRef<bool(PyObject*)> Follows() const { return follows_; }
  void Call(int num_args, int num_above);
  void CallSplat(bool has_keywords);
  void With();
  void Import(PyObject* name);
  void LoadName(PyObject* locals, PyObject* name);
  void LoadSuperAttribute(PyObject* name, bool is_own);
  // A slice of the operands 2 and 1, of the step at hand.
  PyObject* Slice() {
    made_ = PyRef::Steal(PySlice_New(Peek(2), Peek(1), nullptr));
    if (!made_) PyErr_Clear();
    return made_.get();
  }

  StreamListener& listener_;
  const std::function<bool(PyObject*)> follows_ = [this](PyObject* callable) {
    return listener_.IsFollowedCall(callable);
  };
  bool started_ = false;
  absl::flat_hash_map<PyCodeObject*, std::unique_ptr<const Instructions>>
      instructions_;
  PyCodeObject* last_code_ = nullptr;
  const Instructions* last_instructions_ = nullptr;
  const Frame* frame_ = nullptr;
  PyFrameObject* skipped_ = nullptr;  // It and what it calls aren't looked at.
  bool steps_over_ = false;           // Until the next step.
  PyObject** top_ = nullptr;          // Above the operands.
  PyRef made_;  // An operand that the step at hand has no object for.
  // Frames whose step at hand is in C code, which may look at what Python code
  // returns to it.
  absl::flat_hash_set<const Frame*> consuming_;
  // The same where the step is none that calls, hashes or compares.
  absl::flat_hash_set<const Frame*> taking_;
  // The frame whose step at hand gets what others return from C code.
  const Frame* returns_to_ = nullptr;
  // Where a sum that was announced is stored.
  struct {
    const Frame* frame = nullptr;
    int store = 0;
  } sum_;
  // The frame whose step at hand stores it.
  const Frame* storing_ = nullptr;
  // The frame whose last step made an iterator of a range.
  const Frame* made_iterator_of_ = nullptr;
  PyObject* keyword_names_ = nullptr;  // Of the call that comes next.
};

// The word for one of BINARY_OP's in a Program's operators, or null.
const char* OperatorWord(int arg) {
  constexpr int kFirstInplace = 13;
  switch (arg % kFirstInplace) {
    case 0:
      return "add";
    case 2:
      return "floordiv";
    case 5:
      return "mul";
    case 6:
      return "mod";
    case 8:
      return "pow";
    case 10:
      return "sub";
    case 11:
      return "div";
    default:
      return nullptr;
  }
}

bool OpcodeStream::HandsOn(const Instruction& instruction) const {
  static PyObject* get_item = Interned("__getitem__");
  static PyObject* set_item = Interned("__setitem__");
  static PyObject* del_item = Interned("__delitem__");
  switch (instruction.act) {
    case Act::kLoadItem:
      return HasPythonMethod(Peek(2), get_item);
    case Act::kStoreItem:
      return HasPythonMethod(Peek(2), set_item);
    case Act::kDeleteItem:
      return HasPythonMethod(Peek(2), del_item);
    case Act::kLoadSlice:
      return HasPythonMethod(Peek(3), get_item);
    case Act::kStoreSlice:
      return HasPythonMethod(Peek(3), set_item);
    case Act::kBinary:
      return HandsOnResult(Peek(2), Peek(1));
    case Act::kCompare:
      // object.__ne__() asks __eq__() and takes the contrary.
      return instruction.arg != Py_NE && HandsOnResult(Peek(2), Peek(1));
    case Act::kNegate:
      return HandsOnResult(Peek(1), Peek(1));
    case Act::kTouch:  // Mostly iteration.
      return HandsOnItems(Peek(1), Follows());
    case Act::kTouchSecond:
      return HandsOnItems(Peek(2), Follows());
    case Act::kTouchBoth:
      return HandsOnResult(Peek(2), Peek(1));
    case Act::kTruth:
    case Act::kTouchAndTake:
    case Act::kFormat:
    case Act::kHash:
    case Act::kHashItems:
    case Act::kHashKeys:
    case Act::kHashAll:
    case Act::kContains:
      return false;
    default:
      // Attributes, calls, contexts and what runs no Python code.
      return true;
  }
}

void OpcodeStream::Dispatch(const Instruction& instruction,
                            PyCodeObject* code) {
  const int arg = instruction.arg;
  switch (instruction.act) {
    case Act::kRefuse:
      return listener_.Refuse(TextOf(static_cast<Reason>(arg)));
    case Act::kKeywordNames:
      keyword_names_ = Constant(code, arg);
      return;
    case Act::kLoadConst:
      return listener_.LoadConstant(Constant(code, arg));
    case Act::kLoadGlobal:
      return listener_.ReadGlobal(frame_->f_globals, frame_->f_builtins,
                                  Name(code, arg));
    case Act::kStoreGlobal:
      listener_.Store(nullptr, Peek(1));
      return listener_.WriteGlobal(frame_->f_globals, Name(code, arg));
    case Act::kDeleteGlobal:
      return listener_.RemoveItem(frame_->f_globals, Name(code, arg));
    case Act::kLoadName:
      return LoadName(frame_->f_locals, Name(code, arg));
    case Act::kLoadFromDictOrGlobal:
      return LoadName(Peek(1), Name(code, arg));
    case Act::kStoreName:
      if (frame_->f_locals == frame_->f_globals) {
        listener_.Refuse("runs a module's body");
      }
      return;
    case Act::kLoadAttr:
      return listener_.ReadAttribute(Peek(1), Name(code, arg));
    case Act::kLoadSuperAttr:
    case Act::kLoadOwnSuperAttr:
      return LoadSuperAttribute(Name(code, arg),
                                instruction.act == Act::kLoadOwnSuperAttr);
    case Act::kStoreAttr:
      listener_.Store(Peek(1), Peek(2));
      return listener_.WriteAttribute(Peek(1), Name(code, arg));
    case Act::kDeleteAttr:
      return listener_.RemoveAttribute(Peek(1), Name(code, arg));
    case Act::kLoadDeref:
      return listener_.ReadCell(frame_->localsplus[arg],
                                VariableName(code, arg));
    case Act::kStoreDeref:
      listener_.Store(frame_->localsplus[arg], Peek(1));
      return listener_.WriteCell(frame_->localsplus[arg],
                                 VariableName(code, arg));
    case Act::kLoadItem:
      return listener_.UseItem(Peek(2), Peek(1));
    case Act::kStoreItem:
      listener_.Store(Peek(2), Peek(3));
      listener_.NoteChange(Peek(2));
      return listener_.WriteItem(Peek(2), Peek(1), Peek(3));
    case Act::kDeleteItem:
      listener_.NoteChange(Peek(2));
      return listener_.RemoveItem(Peek(2), Peek(1));
    case Act::kLoadSlice:
      if (Slice() != nullptr) listener_.UseItem(Peek(3), made_.get());
      return;
    case Act::kStoreSlice:
      listener_.Store(Peek(3), Peek(4));
      listener_.NoteChange(Peek(3));
      if (Slice() != nullptr)
        listener_.WriteItem(Peek(3), made_.get(), Peek(4));
      return;
    case Act::kContains:
      consuming_.insert(frame_);
      return listener_.Contains(Peek(1), Peek(2));
    case Act::kBinary:
      return Binary(arg);
    case Act::kCompare:
      return listener_.CompareNumbers(static_cast<StreamListener::Order>(arg),
                                      Peek(2), Peek(1));
    case Act::kIs:
      return listener_.Compare(&top_[-2], &top_[-1]);
    case Act::kMakeIterator:
      // An iterator over an iterator is that one itself.
      if (PyRange_Check(Peek(1))) made_iterator_of_ = frame_;
      return listener_.Touch(Peek(1));
    case Act::kNegate:
      return listener_.Negate(Peek(1));
    case Act::kTouch:
    case Act::kTouchAndTake:
      return listener_.Touch(Peek(1));
    case Act::kTruth:
      return listener_.TestTruth(Peek(1));
    case Act::kTouchSecond:
      return listener_.Touch(Peek(2));
    case Act::kTouchBoth:
      listener_.Touch(Peek(2));
      return listener_.Touch(Peek(1));
    case Act::kHash:
      return listener_.Hash(Peek(arg));
    case Act::kHashItems:
      for (int i = 1; i <= arg; ++i) listener_.Hash(Peek(i));
      return;
    case Act::kHashKeys:
      for (int i = 1; i <= arg; ++i) listener_.Hash(Peek(2 * i));
      return;
    case Act::kHashAll:
      consuming_.insert(frame_);
      listener_.Inspect(Peek(1));
      return listener_.Touch(Peek(1));
    case Act::kFormat:
      return listener_.Format(Peek(arg));
    case Act::kCall:
      return Call(arg, /*num_above=*/0);
    case Act::kCallKeywords:
      keyword_names_ = Peek(1);
      return Call(arg, /*num_above=*/1);
    case Act::kCallSplat:
      return CallSplat(arg != 0);
    case Act::kWith:
      return With();
    case Act::kImport:
      return Import(Name(code, arg));
    case Act::kNone:
    case Act::kPartOfStep:
    case Act::kLoadFast:
    case Act::kLoadFastLast:
    case Act::kCopy:
    case Act::kSwap:
      return;
  }
}

void OpcodeStream::Binary(int operation) {
  constexpr int kRemainder = 6;
  constexpr int kInplaceRemainder = 19;
  if (PyUnicode_Check(Peek(2)) &&
      (operation == kRemainder || operation == kInplaceRemainder)) {
    return listener_.Format(Peek(1));  // "%s" % value.
  }
  listener_.Binary(OperatorWord(operation), Peek(2), Peek(1));
}

void OpcodeStream::Call(int num_args, int num_above) {
  // Below the arguments are the callable and what it is to be called with
  // first, or NULL; in that order, or with NULL below the callable.
  PyObject* below = Peek(num_above + num_args + 2);
  PyObject* above = Peek(num_above + num_args + 1);
  PyObject* callable = kCallableIsFirst || below != nullptr ? below : above;
  const bool is_method = (kCallableIsFirst ? above : below) != nullptr;
  const int count = num_args + (is_method ? 1 : 0);
  const absl::Span<PyObject* const> args(top_ - num_above - count,
                                         static_cast<size_t>(count));
  NoteConsumer(callable, args);
  listener_.Call(callable, args, std::exchange(keyword_names_, nullptr));
  const int place = kCallableIsFirst || below != nullptr ? 2 : 1;
  Replace(&top_[-(num_above + num_args + place)]);
  listener_.HandOver({top_ - num_above - count, static_cast<size_t>(count)});
}

void OpcodeStream::CallSplat(bool has_keywords) {
  PyObject* keywords = has_keywords ? Peek(1) : nullptr;
  const int num_keywords = has_keywords ? 1 : 0;
  PyObject* positional = Peek(num_keywords + 1);
  PyObject* callable = Peek(num_keywords + (kCallableIsFirst ? 3 : 2));
  NoteConsumer(callable, {&positional, 1});
  listener_.Touch(positional);
  std::vector<PyObject*> args;
  if (PyTuple_Check(positional) || PyList_Check(positional)) {
    PyRef items = PyRef::Steal(PySequence_Tuple(positional));
    if (!items) return PyErr_Clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      args.push_back(PyTuple_GET_ITEM(items.get(), i));
    }
  } else if (listener_.TakesItemsOf(callable, positional)) {
    // What Python code gives to the iterator is looked at as it returns; what
    // else an iterator gives was looked at when that was made.
    returns_to_ = frame_;
  } else if (!listener_.IsFollowedCall(callable)) {
    return listener_.Refuse("unpacks arguments from what is no list or tuple");
  }
  PyRef names;
  if (keywords != nullptr && PyDict_Check(keywords)) {
    listener_.Touch(keywords);
    PyRef keys = PyRef::Steal(PyDict_Keys(keywords));
    if (keys) names = PyRef::Steal(PyList_AsTuple(keys.get()));
    if (!names) return PyErr_Clear();
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(keywords, &position, &key, &value)) {
      args.push_back(value);
    }
  }
  listener_.Call(callable, args, names.get());
  Replace(&top_[-(num_keywords + (kCallableIsFirst ? 3 : 2))]);
}

void OpcodeStream::LoadSuperAttribute(PyObject* name, bool is_own) {
  // `super()` is called, and an attribute of what it gives is read.
  PyObject* super = Peek(3);
  PyObject* args[] = {Peek(2), Peek(1)};
  listener_.Call(super, {args, is_own ? size_t{0} : size_t{2}}, nullptr);
  if (super != reinterpret_cast<PyObject*>(&PySuper_Type)) {
    // Some other global of that name: what it gives isn't there yet.
    return listener_.Refuse("calls a super() that isn't Python's");
  }
  made_ = PyRef::Steal(PyObject_Vectorcall(super, args, 2, nullptr));
  if (!made_) return PyErr_Clear();  // Raises.
  listener_.ReadAttribute(made_.get(), name);
}

void OpcodeStream::With() {
  PyObject* manager = Peek(1);
  listener_.Touch(manager);
  for (const char* name : {"__enter__", "__exit__"}) {
    PyRef word = PyRef::Steal(PyUnicode_InternFromString(name));
    PyObject* method = _PyType_Lookup(Py_TYPE(manager), word.get());
    if (method == nullptr) continue;  // Raises.
    if (PyInstanceMethod_Check(method)) {
      method = PyInstanceMethod_GET_FUNCTION(method);
    }
    listener_.Call(method, {&manager, 1}, nullptr);
  }
}

void OpcodeStream::LoadName(PyObject* locals, PyObject* name) {
  if (locals != nullptr && locals != frame_->f_globals &&
      PyDict_CheckExact(locals)) {
    if (PyDict_GetItemWithError(locals, name) != nullptr) return;
  }
  listener_.ReadGlobal(frame_->f_globals, frame_->f_builtins, name);
}

void OpcodeStream::Import(PyObject* name) {
  const long level = PyLong_AsLong(Peek(2));
  if (level == 0) return listener_.Import(name);
  // A relative import: from the package that the code belongs to.
  PyObject* package = PyDict_GetItemString(frame_->f_globals, "__package__");
  if (level < 0 || package == nullptr || !PyUnicode_Check(package)) {
    PyErr_Clear();
    return listener_.Refuse("imports relative to no package");
  }
  std::string full = PyText(package);
  for (long i = 1; i < level; ++i) {
    const size_t dot = full.rfind('.');
    if (dot == std::string::npos) return;  // Raises.
    full.resize(dot);
  }
  const std::string last = PyText(name);
  if (!last.empty()) full += "." + last;
  PyRef word = PyRef::Steal(PyUnicode_InternFromString(full.c_str()));
  listener_.Import(word.get());
}

}  // namespace

std::unique_ptr<InterpreterStream> MakeInterpreterStream(
    StreamListener* listener) {
  return std::make_unique<OpcodeStream>(listener);
}

}  // namespace mica
