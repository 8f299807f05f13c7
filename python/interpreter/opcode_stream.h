// The interpreter's stream: looks at the operands of every instruction before
// it runs.

#ifndef MICA_PYTHON_INTERPRETER_OPCODE_STREAM_H_
#define MICA_PYTHON_INTERPRETER_OPCODE_STREAM_H_

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/joins.h"
#include "python/interpreter/stream.h"
#include "python/interpreter/while_loops.h"

namespace mica {

// A trace function in C is told of calls and returns, and of instructions on
// CPython 3.11; later versions announce them as step_events.h says. The events
// come with the value stack in place.
class OpcodeStream final : public InterpreterStream {
 public:
  explicit OpcodeStream(StreamListener* listener) : listener_(*listener) {}
  ~OpcodeStream() override { Stop(); }

  void Start() override;

  void Stop() override;

 private:
  static int Trace(PyObject* self, PyFrameObject* frame, int what,
                   PyObject* arg);

  static void OnStep();

  int Tell(PyFrameObject* frame, int what, PyObject* arg);
  // What the listener called threw it.
  void RefuseFor(const std::exception& error);
  // If a function goes on, or ends, without an announced step.
  void RefuseUnstepped();

  // Null, with a refusal, for code that can't be followed.
  const Instructions* InstructionsOf(PyCodeObject* code);

  // True, with a Python error set, if the listener has the program end here.
  // Stops if it has seen enough.
  bool Aborts();
  // A step begins.
  void Step(Frame* frame);

  // The n-th operand from the top of the stack, from 1.
  PyObject* Peek(int n) const { return top_[-n]; }
  static PyObject* Name(PyCodeObject* code, int index) {
    return PyTuple_GET_ITEM(code->co_names, index);
  }
  using Order = StreamListener::Order;
  static PyObject* Constant(PyCodeObject* code, int index) {
    return PyTuple_GET_ITEM(code->co_consts, index);
  }
  static PyObject* VariableName(PyCodeObject* code, int index) {
    return PyTuple_GET_ITEM(code->co_localsplusnames, index);
  }

  // True if Python code that the step at hand may run by way of C code returns
  // its results to the program as they are, not to that C code.
  bool HandsOn(const Instruction& instruction) const;
  // Tells of an instruction's operands.
  void Dispatch(const Instruction& instruction, PyCodeObject* code);
  // The same of those that use places of the state, items of containers, and
  // values; false for others.
  bool DispatchPlace(const Instruction& instruction, PyCodeObject* code);
  bool DispatchItem(const Instruction& instruction);
  bool DispatchValue(const Instruction& instruction, PyCodeObject* code);
  bool DispatchCall(const Instruction& instruction);
  void Advance();
  // What the function at hand has: its variables, and the operands below
  // `top`.
  absl::Span<PyObject*> Variables() const;
  absl::Span<PyObject* const> OperandsBelow(PyObject** top) const;
  // Loops that are left, and rounds that begin, before the step at `unit`.
  void TellRounds(PyCodeObject* code, const Instructions& instructions,
                  int unit);
  // The function ends: its loops are left.
  void TellRoundsAtEnd(const Frame* frame);
  // Ways that meet before the step at `unit`, after the one that jumped.
  void TellJoins(PyCodeObject* code, int unit);
  // The same at the end of a function, which gives `result`; null if it raises.
  void TellJoinsAtEnd(const Frame* frame, PyObject* result);
  void Format(int arg);
  void Binary(int operation);
  // What Python code returns to the C code of a call may be looked at there.
  void NoteConsumer(PyObject* callable, absl::Span<PyObject* const> args);
  // Puts what the listener wants called in place of `*callable`.
  void Replace(PyObject** callable) {
    PyRef other = listener_.TakeInPlaceOfCall();
    if (!other) return;
    // What Python code gives is what the step gives.
    if (PyFunction_Check(other.get())) consuming_.erase(frame_);
    Py_SETREF(*callable, other.release());
  }
  absl::FunctionRef<bool(PyObject*)> Follows() const { return follows_; }
  void Call(int num_args, int num_above);
  void CallSplat(bool has_keywords);
  // Of an iterator whose items Python code gives: the listener's function is
  // called in place of the callable.
  void CallInPython(int num_keywords);
  void With();
  void LeaveWith();
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
  Frame* frame_ = nullptr;
  // A followed function that began, if no step of it was announced yet.
  const Frame* unstepped_ = nullptr;
  PyFrameObject* skipped_ = nullptr;  // It and what it calls aren't looked at.
  bool steps_over_ = false;           // Until the next step.
  PyObject** top_ = nullptr;          // Above the operands.
  PyRef made_;  // An operand that the step at hand has no object for.
  // Frames whose step at hand is in C code, which may look at what Python code
  // returns to it.
  absl::flat_hash_set<const Frame*> consuming_;
  // The same where the step is none that calls, hashes or compares.
  absl::flat_hash_set<const Frame*> taking_;
  // Frames whose step at hand asks a generator for its next item, and the top
  // of their operands, which is that.
  absl::flat_hash_map<const Frame*, PyObject**> advancing_;
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
  // Loops on a condition that go, the innermost last.
  struct OpenLoop {
    const Frame* frame = nullptr;
    const WhileLoops::Loop* loop = nullptr;
    int64_t number = 0;
    int unit = 0;  // Of the function's last step.
  };
  std::vector<OpenLoop> open_loops_;
  int64_t num_loops_ = 0;  // That the program came to.
  absl::flat_hash_map<PyCodeObject*, std::unique_ptr<const WhileLoops>>
      loops_of_;
  // StreamListener::NumForks() when a function began.
  absl::flat_hash_map<const Frame*, int64_t> forks_before_;
  // The last jump by a truth; a null frame once its forks are known.
  struct {
    const Frame* frame = nullptr;
    int unit = 0;
  } jump_;
  // Where the ways from jumps will meet.
  struct Join {
    const Frame* frame = nullptr;
    int unit = 0;
    int64_t token = 0;
  };
  std::vector<Join> joins_;
  absl::flat_hash_map<PyCodeObject*, std::unique_ptr<const Joins>> joins_of_;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_OPCODE_STREAM_H_
