// The interpreter's stream: what Python code does, step by step, told to a
// listener. It knows bytecode; what its listener makes of it, it doesn't.

#ifndef MICA_PYTHON_INTERPRETER_STREAM_H_
#define MICA_PYTHON_INTERPRETER_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Is told what a thread's Python code reads, writes and calls. A step is one
// instruction; its events come between BeginStep() and the next step's
// EndStep(), each before it takes effect. What isn't told moves values that
// others made, makes new objects of them, or jumps. Objects are borrowed.
//
// One stream tells it, on one thread, under the GIL.
class StreamListener {
 public:
  virtual ~StreamListener() = default;

  // In the order of CPython's numbers for them.
  enum class Order {
    kLess,
    kLessEqual,
    kEqual,
    kNotEqual,
    kGreater,
    kGreaterEqual
  };

  virtual void BeginStep() = 0;
  // `result` is the top of the stack that the step left; null if none is, or if
  // the step entered another function (or left this one). Another object of the
  // same value may be put there.
  virtual void EndStep(PyObject** result, bool entered) = 0;
  // What the step gives is dropped. Told before it ends.
  virtual void DropResult() {}
  // A step that entered another function is over; this is what it gave, or what
  // the code that goes on had there before.
  virtual void CameBack(PyObject* /*result*/) {}
  // What the step at hand calls is not to be followed. Asked after its events.
  virtual bool StepsOver() = 0;
  // False for a function that is not to be followed, nor what it calls.
  virtual bool Follows(PyObject* function) = 0;
  // False once there is nothing more to tell it: the stream stops.
  virtual bool WantsMore() = 0;
  // Something that no event stands for. `reason`: "matches a class pattern".
  virtual void Refuse(std::string reason, std::string mend) = 0;
  void Refuse(std::string reason) { Refuse(std::move(reason), ""); }

  // `function` begins; a generator's also each time that it is resumed.
  virtual void EnterFunction(PyObject* function) = 0;
  virtual void LoadConstant(PyObject* constant) = 0;
  virtual void ReadGlobal(PyObject* globals, PyObject* builtins,
                          PyObject* name) = 0;
  virtual void WriteGlobal(PyObject* globals, PyObject* name) = 0;
  virtual void ReadAttribute(PyObject* owner, PyObject* name) = 0;
  virtual void WriteAttribute(PyObject* owner, PyObject* name) = 0;
  virtual void RemoveAttribute(PyObject* owner, PyObject* name) = 0;
  // A variable of an enclosing function.
  virtual void ReadCell(PyObject* cell, PyObject* name) = 0;
  virtual void WriteCell(PyObject* cell, PyObject* name) = 0;
  // Reads `container[key]`.
  virtual void UseItem(PyObject* container, PyObject* key) = 0;
  // What container[key], which was told, is taken of instead: an object whose
  // __getitem__() is in Python. Null for none.
  virtual PyRef TakeInPlaceOfItems(PyObject* /*container*/, PyObject* /*key*/) {
    return PyRef();
  }
  // Asks whether `container` has an item equal to `item`, or such a key. To who
  // gives nothing in place of items that is as good as a read.
  virtual void Contains(PyObject* container, PyObject* item) {
    // A dict's keys were looked at when it got them.
    if (!PyDict_Check(container)) Inspect(container);
    UseItem(container, item);
  }
  // container[key] = value is about to be told, and done: others may be put
  // there, for which it has the same outcome.
  virtual void ReplaceStore(PyObject** /*container*/, PyObject** /*key*/,
                            PyObject** /*value*/) {}
  virtual void WriteItem(PyObject* container, PyObject* key,
                         PyObject* value) = 0;
  virtual void RemoveItem(PyObject* container, PyObject* key) = 0;
  // `value` is about to be stored in `owner`; null for the globals.
  virtual void Store(PyObject* owner, PyObject* value) = 0;
  // `container` is about to change.
  virtual void NoteChange(PyObject* container) = 0;

  // What the step at hand reads is only read to have `addend` added, and the
  // sum is put where it came from. EndIncrement() says whether to tell when.
  virtual void BeginIncrement(PyObject* addend) = 0;
  virtual bool EndIncrement() = 0;
  // Whether the step at hand, and what it calls, puts the sum there.
  virtual void SetStoresSum(bool stores) = 0;

  // a + b and its like: `op` is the word for it in the Program's operators
  // ("add"), null for one that no Program has.
  virtual void Binary(const char* op, PyObject* a, PyObject* b) = 0;
  // The same step puts the items of `b` at the end of the list `a`: a += b.
  virtual void Extend(PyObject* /*a*/, PyObject* /*b*/) {}
  virtual void Negate(PyObject* number) = 0;
  virtual void CompareNumbers(Order order, PyObject* a, PyObject* b) = 0;
  // Compares identities; others of the same value may be put there.
  virtual void Compare(PyObject** a, PyObject** b) = 0;
  // `if x`, `not x`.
  virtual void TestTruth(PyObject* object) = 0;
  // Makes text of `value`: format(value, spec), of str(), repr() or ascii() of
  // it where `conversion` is 1, 2 or 3. `spec` is null for none.
  virtual void Format(PyObject* value, int conversion, PyObject* spec) = 0;
  // What text % value, which isn't told then, is done with instead of the text:
  // an object whose __mod__() is in Python. Null for none.
  virtual PyRef TakeInPlaceOfFormat(PyObject* /*text*/, PyObject* /*value*/) {
    return PyRef();
  }
  // "%s" % value.
  virtual void FormatBy(PyObject* /*text*/, PyObject* value) {
    Format(value, 0, nullptr);
  }
  // Makes one text of several.
  virtual void Join(absl::Span<PyObject* const> /*texts*/) {}
  // Asks for the value of `object`, or those of the numbers that it holds: for
  // its hash, or whether it is equal to another.
  virtual void Inspect(PyObject* object) = 0;
  // The same of what becomes a key of a new dict or a member of a new set.
  virtual void Hash(PyObject* key) { Inspect(key); }
  // An operator looks at `object`, not into what it holds.
  virtual void Touch(PyObject* object) = 0;
  // Makes an iterator of `object`.
  virtual void MakeIterator(PyObject* object) { Touch(object); }
  // A loop asks for its next item. What the function has at that moment: its
  // variables, null where they have no value, and the operands below the
  // iterator. Others may be put in place of the variables. A generator's loop
  // tells that if a loop asked the generator, another generator asked that, and
  // so on: `generators` are these, and the operands all that they and the last
  // loop's function have.
  virtual void Advance(PyObject* iterator, absl::Span<PyObject*> /*variables*/,
                       absl::Span<PyObject* const> /*operands*/,
                       absl::Span<PyObject* const> /*generators*/) {
    Touch(iterator);
  }
  // The same where a round of a loop on a condition begins. `loop` is a number
  // for each time that the program comes to one.
  virtual void BeginRound(int64_t /*loop*/, absl::Span<PyObject*> /*variables*/,
                          absl::Span<PyObject* const> /*operands*/) {}
  // The loop is left: by its condition, after whole rounds, or otherwise.
  virtual void LeaveLoop(int64_t /*loop*/, bool /*by_condition*/,
                         absl::Span<PyObject*> /*variables*/,
                         absl::Span<PyObject* const> /*operands*/) {}
  // C code gets `object`, and what it holds.
  virtual void TouchDeep(PyObject* object) = 0;
  // Python code gave `object` to C code that the step at hand runs, and that
  // may do anything with it: takes its length, adds it, asks whether it's true.
  virtual void TakeReturned(PyObject* /*object*/) {}
  // The step before gave `object`, which the collector doesn't track.
  virtual void AddYoung(PyObject* object) = 0;

  // `keyword_names` is a tuple, of the last arguments, or null.
  virtual void Call(PyObject* callable, absl::Span<PyObject* const> args,
                    PyObject* keyword_names) = 0;
  // What is to be called in place of what Call() was just told of; null for
  // that itself.
  virtual PyRef TakeInPlaceOfCall() { return PyRef(); }
  // The operands that are the arguments of what Call() was just told of, in
  // whose place others may be put.
  virtual void HandOver(absl::Span<PyObject*> /*args*/) {}
  // The step at hand raises this, null if that isn't known.
  virtual void Raised(PyObject* /*error*/) {}
  // How often the way of the program may have forked so far.
  virtual int64_t NumForks() { return 0; }
  // A jump goes by what may be another value in another run. `num_before` is
  // what NumForks() was when its function began. What JoinWays() is to be told
  // where all ways from the jump have met; -1 if nobody wants to know.
  virtual int64_t TakeForks(int64_t /*num_before*/) { return -1; }
  // The ways have met: at a step before which the function has these variables
  // and operands; or it returns, and has the one operand alone.
  virtual void JoinWays(int64_t /*token*/,
                        absl::Span<PyObject* const> /*variables*/,
                        absl::Span<PyObject* const> /*operands*/) {}
  // Whether what was told last is to raise an exception instead of being done;
  // asked once after each step and each function that begins.
  virtual bool TakeAbort() { return false; }
  // Whether a call leads to Python code, whatever its arguments are.
  virtual bool IsFollowedCall(PyObject* callable) = 0;
  // Whether C code that is called only hands on what it gets, and doesn't look
  // into it.
  virtual bool Moves(PyObject* /*callable*/) { return false; }
  // Whether `callable` can have the items of `iterator`, which aren't known
  // before the call, if what Python code returns for them is told then.
  virtual bool TakesItemsOf(PyObject* callable, PyObject* iterator) = 0;
  // A Python function that calls its first argument with the items of its
  // second, and with the keywords that it gets; null if there is none.
  virtual PyRef CallWithItems() { return PyRef(); }
  virtual void Import(PyObject* name) = 0;
};

// Follows what Python code this thread executes and tells a listener before
// each step what the step reads, writes and calls. A later form may keep
// shadows of the values; listeners stay.
class InterpreterStream {
 public:
  virtual ~InterpreterStream() = default;
  // Between the two, one stream a thread. Requires: !IsForeignTracerActive().
  virtual void Start() = 0;
  virtual void Stop() = 0;
};
// `listener` outlives the stream.
std::unique_ptr<InterpreterStream> MakeInterpreterStream(
    StreamListener* listener);

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_STREAM_H_
