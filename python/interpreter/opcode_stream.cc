#include "python/interpreter/opcode_stream.h"

#include "absl/strings/str_cat.h"
#include "python/interpreter/contained.h"
#include "python/interpreter/step_events.h"

namespace mica {
namespace {

thread_local OpcodeStream* running = nullptr;

// Whether a function may go on later where it left off.
bool Suspends(const PyCodeObject* code) {
  return (code->co_flags &
          (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

// Whether it is this thread's tracer now. An audit hook is told before. What a
// handler of a signal raises there comes once, as does what 3.11 raises if
// another thread is about to set its tracer.
bool SetTracer(Py_tracefunc tracer) {
  constexpr int kMaxTries = 9;
  for (int i = 0; i < kMaxTries; ++i) {
    PyEval_SetTrace(tracer, nullptr);
    if (PyThreadState_Get()->c_tracefunc == tracer) return true;
  }
  return false;
}

}  // namespace

void OpcodeStream::Start() {
  if (!StartStepEvents(&OpcodeStream::OnStep)) {
    return listener_.Refuse("no tool of sys.monitoring's is free");
  }
  started_ = true;
  running = this;
  if (SetTracer(&OpcodeStream::Trace)) return;
  Stop();
  listener_.Refuse("no tracer can be set: an audit hook raises");
}

void OpcodeStream::Stop() {
  if (!started_) return;
  started_ = false;
  running = nullptr;
  StopStepEvents();
  if (PyThreadState_Get()->c_tracefunc == &OpcodeStream::Trace) {
    SetTracer(nullptr);
  }
}

int OpcodeStream::Trace(PyObject* /*self*/, PyFrameObject* frame, int what,
                        PyObject* arg) {
  OpcodeStream* stream = running;
  if (stream == nullptr) return 0;  // It couldn't be taken away.
  try {
    return stream->Tell(frame, what, arg);
  } catch (const std::exception& error) {
    stream->RefuseFor(error);
    return 0;
  }
}

int OpcodeStream::Tell(PyFrameObject* frame, int what, PyObject* arg) {
  switch (what) {
    case PyTrace_CALL:
      frame->f_trace_lines = 0;
      if (skipped_ != nullptr) break;
      if (steps_over_ || !listener_.Follows(FunctionOf(frame->f_frame))) {
        skipped_ = frame;
        break;
      }
      FollowSteps(frame);
      RefuseUnstepped();
      unstepped_ = frame->f_frame;
      forks_before_[frame->f_frame] = listener_.NumForks();
      listener_.EnterFunction(FunctionOf(frame->f_frame));
      break;
    case PyTrace_OPCODE:
      Step(frame->f_frame);
      break;
    case PyTrace_RETURN:
      if (skipped_ == frame) skipped_ = nullptr;
      if (unstepped_ == frame->f_frame) RefuseUnstepped();
      if (arg != nullptr && consuming_.contains(CallerOf(frame->f_frame))) {
        listener_.Inspect(arg);
      } else if (arg != nullptr && taking_.contains(CallerOf(frame->f_frame))) {
        listener_.TakeReturned(arg);
      }
      if (arg != nullptr && returns_to_ != nullptr &&
          CallerOf(frame->f_frame) == returns_to_) {
        listener_.TouchDeep(arg);
      }
      if (skipped_ == nullptr) TellJoinsAtEnd(frame->f_frame, arg);
      TellRoundsAtEnd(frame->f_frame);
      LeaveSteps(frame);
      frame->f_trace_lines = 1;
      return 0;
    case PyTrace_EXCEPTION:
      // As when one is thrown into a generator, which may leave it at once, and
      // closes others in turn.
      if (unstepped_ == frame->f_frame && Suspends(CodeOf(unstepped_))) {
        unstepped_ = nullptr;
      }
      if (skipped_ == nullptr) {
        const bool is_triple =
            arg != nullptr && PyTuple_Check(arg) && PyTuple_GET_SIZE(arg) == 3;
        listener_.Raised(is_triple ? PyTuple_GET_ITEM(arg, 1) : nullptr);
      }
      return 0;
    default:
      return 0;
  }
  return Aborts() ? -1 : 0;
}

void OpcodeStream::OnStep() {
  OpcodeStream* stream = running;
  if (stream == nullptr || stream->skipped_ != nullptr) return;
  try {
    stream->Step(const_cast<Frame*>(RunningFrame()));
    static_cast<void>(stream->Aborts());
  } catch (const std::exception& error) {
    stream->RefuseFor(error);
  }
}

void OpcodeStream::RefuseUnstepped() {
  if (std::exchange(unstepped_, nullptr) == nullptr) return;
  listener_.Refuse(
      "runs code whose instructions CPython doesn't announce beside another "
      "tool's (a profiler's or a debugger's)");
}

void OpcodeStream::RefuseFor(const std::exception& error) {
  listener_.Refuse(
      absl::StrCat("uses a value that can't be looked at: ", TextOf(error)));
}

bool OpcodeStream::Aborts() {
  const bool aborts = listener_.TakeAbort();
  if (aborts) PyErr_SetString(PyExc_RuntimeError, "mica: not to be done");
  if (!listener_.WantsMore()) Stop();
  return aborts;
}

const Instructions* OpcodeStream::InstructionsOf(PyCodeObject* code) {
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

void OpcodeStream::Step(Frame* frame) {
  if (unstepped_ == frame) unstepped_ = nullptr;
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
  if (entered && depth > 0) {
    // Below the null that a call wants, from 3.13 on.
    const bool is_callable = Peek(1) == nullptr && depth > 1;
    PyObject* result = Peek(is_callable ? 2 : 1);
    if (result != nullptr) listener_.CameBack(result);
  }
  if (instruction.act == Act::kDrop) listener_.DropResult();
  listener_.EndStep(depth > 0 && !entered ? &top_[-1] : nullptr, entered);
  TellJoins(code, at);
  TellRounds(code, *instructions, at);
  if (instruction.is_fork) jump_ = {.frame = frame, .unit = at};
  listener_.BeginStep();
  made_ = PyRef();
  if (returns_to_ == frame) returns_to_ = nullptr;
  if (!consuming_.empty()) consuming_.erase(frame);
  if (!taking_.empty()) taking_.erase(frame);
  if (!advancing_.empty()) advancing_.erase(frame);
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

absl::Span<PyObject*> OpcodeStream::Variables() const {
  return {frame_->localsplus,
          static_cast<size_t>(CodeOf(frame_)->co_nlocalsplus)};
}

absl::Span<PyObject* const> OpcodeStream::OperandsBelow(PyObject** top) const {
  PyObject* const* operands =
      frame_->localsplus + CodeOf(frame_)->co_nlocalsplus;
  return {operands, static_cast<size_t>(top - operands)};
}

void OpcodeStream::Advance() {
  PyObject* iterator = Peek(1);
  if (PyGen_CheckExact(iterator)) advancing_[frame_] = top_;
  const absl::Span<PyObject* const> own = OperandsBelow(top_ - 1);
  std::vector<PyObject*> operands(own.begin(), own.end()), generators;
  const Frame* frame = frame_;
  while (Suspends(CodeOf(frame))) {
    PyObject* generator = GeneratorOf(frame);
    frame = CallerOf(frame);
    const auto asking = advancing_.find(frame);
    // Code in C may ask, and keep what it got.
    if (asking == advancing_.end() || asking->second[-1] != generator) {
      return listener_.Touch(iterator);
    }
    generators.push_back(generator);
    PyObject* const* variables = frame->localsplus;
    PyObject* const* end = asking->second - 1;
    operands.insert(operands.end(), variables, end);
  }
  listener_.Advance(iterator, Variables(), operands, generators);
}

void OpcodeStream::TellRounds(PyCodeObject* code,
                              const Instructions& instructions, int unit) {
  // What a function that suspends has, others may have, too.
  if (Suspends(code)) return;
  while (!open_loops_.empty() && open_loops_.back().frame == frame_ &&
         !open_loops_.back().loop->Holds(unit)) {
    const OpenLoop left = open_loops_.back();
    open_loops_.pop_back();
    listener_.LeaveLoop(left.number, left.loop->EndsAt(left.unit), Variables(),
                        OperandsBelow(top_));
  }
  auto& loops = loops_of_[code];
  if (loops == nullptr) {
    loops = std::make_unique<const WhileLoops>(code, instructions);
  }
  const WhileLoops::Loop* loop = loops->FindAt(unit);
  const bool is_open =
      !open_loops_.empty() && open_loops_.back().frame == frame_;
  if (loop != nullptr && (!is_open || open_loops_.back().loop != loop)) {
    open_loops_.push_back(
        {.frame = frame_, .loop = loop, .number = num_loops_++});
  }
  if (!open_loops_.empty() && open_loops_.back().frame == frame_) {
    open_loops_.back().unit = unit;
  }
  if (loop == nullptr) return;
  listener_.BeginRound(open_loops_.back().number, Variables(),
                       OperandsBelow(top_));
}

void OpcodeStream::TellRoundsAtEnd(const Frame* frame) {
  advancing_.erase(frame);
  while (!open_loops_.empty() && open_loops_.back().frame == frame) {
    listener_.LeaveLoop(open_loops_.back().number, /*by_condition=*/false, {},
                        {});
    open_loops_.pop_back();
  }
}

void OpcodeStream::TellJoins(PyCodeObject* code, int unit) {
  if (jump_.frame == frame_) {
    jump_.frame = nullptr;
    const auto before = forks_before_.find(frame_);
    const int64_t token = before == forks_before_.end()
                              ? -1
                              : listener_.TakeForks(before->second);
    // What a function that suspends has, others may have, too.
    if (token >= 0 && !Suspends(code)) {
      auto& joins = joins_of_[code];
      if (joins == nullptr) joins = std::make_unique<const Joins>(code);
      joins_.push_back(
          {.frame = frame_, .unit = joins->Of(jump_.unit), .token = token});
    }
  }
  while (!joins_.empty() && joins_.back().frame == frame_ &&
         joins_.back().unit == unit) {
    listener_.JoinWays(joins_.back().token, Variables(), OperandsBelow(top_));
    joins_.pop_back();
  }
}

void OpcodeStream::TellJoinsAtEnd(const Frame* frame, PyObject* result) {
  forks_before_.erase(frame);
  if (jump_.frame == frame) jump_.frame = nullptr;
  while (!joins_.empty() && joins_.back().frame == frame) {
    if (result != nullptr) {
      listener_.JoinWays(joins_.back().token, {}, {&result, 1});
    }
    joins_.pop_back();
  }
}

std::unique_ptr<InterpreterStream> MakeInterpreterStream(
    StreamListener* listener) {
  return std::make_unique<OpcodeStream>(listener);
}

}  // namespace mica
