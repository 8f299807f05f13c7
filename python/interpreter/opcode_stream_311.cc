// The interpreter's stream on CPython 3.11: a trace function in C that looks
// at the operands of every opcode before it runs. The events come with the
// value stack in place; opcodes are the unspecialised ones.

#include <opcode.h>

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "python/interpreter/cpython_311.h"
#include "python/interpreter/stream.h"

namespace mica {
namespace {

// A code object's instructions as the compiler made them.
struct Instructions {
  PyRef code;
  PyRef bytes;
};

class OpcodeStream final : public InterpreterStream {
 public:
  explicit OpcodeStream(StreamListener* listener) : listener_(*listener) {}
  ~OpcodeStream() override { Stop(); }

  void Start() override {
    PyRef self = PyRef::Steal(PyCapsule_New(this, nullptr, nullptr));
    started_ = true;
    PyEval_SetTrace(&OpcodeStream::Trace, self.get());
  }

  void Stop() override {
    if (!started_) return;
    started_ = false;
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
            !stream->listener_.Follows(
                reinterpret_cast<PyObject*>(frame->f_frame->f_func))) {
          stream->skipped_ = frame;
          break;
        }
        frame->f_trace_opcodes = 1;
        stream->Enter(frame->f_frame);
        break;
      case PyTrace_OPCODE:
        stream->Step(frame->f_frame);
        break;
      case PyTrace_RETURN:
        if (stream->skipped_ == frame) stream->skipped_ = nullptr;
        if (arg != nullptr && stream->returns_to_ != nullptr &&
            frame->f_frame->previous == stream->returns_to_) {
          stream->listener_.TouchDeep(arg);
        }
        frame->f_trace_opcodes = 0;
        frame->f_trace_lines = 1;
        return 0;
      default:
        return 0;
    }
    if (!stream->listener_.WantsMore()) stream->Stop();
    return 0;
  }

  void Enter(_PyInterpreterFrame* frame) {
    listener_.EnterFunction(reinterpret_cast<PyObject*>(frame->f_func));
  }

  const uint8_t* BytesOf(PyCodeObject* code) {
    if (code == last_code_) return last_bytes_;
    auto [it, is_new] = instructions_.try_emplace(code);
    if (is_new) {
      it->second.code = PyRef::Share(reinterpret_cast<PyObject*>(code));
      it->second.bytes = PyRef::Steal(PyCode_GetCode(code));
      if (!it->second.bytes) {
        PyErr_Clear();
        return nullptr;
      }
    }
    last_code_ = code;
    last_bytes_ = reinterpret_cast<const uint8_t*>(
        PyBytes_AS_STRING(it->second.bytes.get()));
    return last_bytes_;
  }

  void Step(_PyInterpreterFrame* frame) {
    PyCodeObject* code = frame->f_code;
    const uint8_t* bytes = BytesOf(code);
    if (bytes == nullptr) return listener_.Refuse("runs code without bytecode");
    int at = _PyInterpreterFrame_LASTI(frame);
    if (at < 0) return;
    // An extended argument and the opcode it is for are one event, or two.
    int arg = 0;
    int begin = at;
    while (begin > 0 && bytes[2 * (begin - 1)] == EXTENDED_ARG) --begin;
    while (bytes[2 * at] == EXTENDED_ARG) ++at;
    for (int i = begin; i <= at; ++i) arg = (arg << 8) | bytes[2 * i + 1];
    // Announced by PRECALL, which is a step with it.
    if (bytes[2 * at] == CALL) return;
    const bool entered = std::exchange(frame_, frame) != frame;
    top_ = frame->localsplus + frame->stacktop;
    const bool has_top = frame->stacktop > code->co_nlocalsplus;
    if (std::exchange(made_iterator_of_, nullptr) == frame &&
        !PyObject_IS_GC(Peek(1))) {
      listener_.AddYoung(Peek(1));  // Of a range.
    }
    listener_.EndStep(has_top && !entered ? Peek(1) : nullptr, entered);
    listener_.BeginStep();
    if (returns_to_ == frame) returns_to_ = nullptr;
    if (storing_ == frame) {
      storing_ = nullptr;
      listener_.SetStoresSum(false);
    }
    if (sum_.frame == frame && sum_.store == at) {
      sum_.frame = nullptr;
      storing_ = frame;
      listener_.SetStoresSum(true);
    }
    int store = 0;
    if (const PyRef addend = FindAddend(bytes, at, arg, code, &store)) {
      listener_.BeginIncrement(addend.get());
      Dispatch(bytes[2 * at], arg, code);
      if (listener_.EndIncrement()) sum_ = {.frame = frame, .store = store};
    } else {
      Dispatch(bytes[2 * at], arg, code);
    }
    steps_over_ = listener_.StepsOver();
  }

  // The n-th operand from the top of the stack, from 1.
  PyObject* Peek(int n) const { return top_[-n]; }
  PyObject* Name(PyCodeObject* code, int index) const {
    return PyTuple_GET_ITEM(code->co_names, index);
  }

  static PyRef FindAddend(const uint8_t* bytes, int at, int arg,
                          PyCodeObject* code, int* store);
  void Dispatch(int opcode, int arg, PyCodeObject* code);
  void Binary(int arg);
  void Call(int num_args);
  void CallEx(int flags);
  void With();
  void Import(PyObject* name);
  void LoadName(PyObject* name);
  void Cell(PyCodeObject* code, int index) {
    listener_.ReadCell(frame_->localsplus[index],
                       PyTuple_GET_ITEM(code->co_localsplusnames, index));
  }

  StreamListener& listener_;
  bool started_ = false;
  absl::flat_hash_map<PyCodeObject*, Instructions> instructions_;
  PyCodeObject* last_code_ = nullptr;
  const uint8_t* last_bytes_ = nullptr;
  _PyInterpreterFrame* frame_ = nullptr;
  PyFrameObject* skipped_ = nullptr;  // It and what it calls aren't looked at.
  bool steps_over_ = false;           // Until the next step.
  PyObject** top_ = nullptr;
  // The frame whose step at hand gets what others return from C code.
  const _PyInterpreterFrame* returns_to_ = nullptr;
  // Where a sum that was announced is stored.
  struct {
    const _PyInterpreterFrame* frame = nullptr;
    int store = 0;
  } sum_;
  // The frame whose step at hand stores it.
  const _PyInterpreterFrame* storing_ = nullptr;
  // The frame whose last step made an iterator of a range.
  const _PyInterpreterFrame* made_iterator_of_ = nullptr;
  PyObject* keyword_names_ = nullptr;  // Of the call that comes next.
};

// The Program's operator for one of BINARY_OP's, or null.
const char* ScalarOp(int arg) {
  constexpr int kFirstInplace = 13;
  switch (arg % kFirstInplace) {
    case 0:
      return "mica.scalar_add";
    case 5:
      return "mica.scalar_mul";
    case 8:
      return "mica.scalar_pow";
    case 10:
      return "mica.scalar_sub";
    case 11:
      return "mica.scalar_div";
    default:
      return nullptr;
  }
}

// Opcodes without a case move values that others made, or make new objects of
// them, or jump.
void OpcodeStream::Dispatch(int opcode, int arg, PyCodeObject* code) {
  switch (opcode) {
    case KW_NAMES:
      keyword_names_ = PyTuple_GET_ITEM(code->co_consts, arg);
      return;
    case LOAD_GLOBAL:
      return listener_.ReadGlobal(frame_->f_globals, frame_->f_builtins,
                                  Name(code, arg >> 1));
    case LOAD_CONST:
      return listener_.LoadConstant(PyTuple_GET_ITEM(code->co_consts, arg));
    case STORE_GLOBAL:
      listener_.Store(nullptr, Peek(1));
      return listener_.WriteGlobal(frame_->f_globals, Name(code, arg));
    case DELETE_GLOBAL:
      return listener_.ReadGlobal(frame_->f_globals, nullptr, Name(code, arg));
    case LOAD_NAME:
      return LoadName(Name(code, arg));
    case STORE_NAME:
    case DELETE_NAME:
      if (frame_->f_locals == frame_->f_globals) {
        listener_.Refuse("runs a module's body");
      }
      return;
    case LOAD_ATTR:
    case LOAD_METHOD:
    case IMPORT_FROM:
      return listener_.ReadAttribute(Peek(1), Name(code, arg));
    case STORE_ATTR:
      listener_.Store(Peek(1), Peek(2));
      return listener_.WriteAttribute(Peek(1), Name(code, arg));
    case DELETE_ATTR:
      return listener_.RemoveAttribute(Peek(1), Name(code, arg));
    case STORE_DEREF:
      listener_.Store(frame_->localsplus[arg], Peek(1));
      return listener_.WriteCell(
          frame_->localsplus[arg],
          PyTuple_GET_ITEM(code->co_localsplusnames, arg));
    case LOAD_DEREF:
    case LOAD_CLASSDEREF:
    case DELETE_DEREF:
      return Cell(code, arg);
    case STORE_SUBSCR:
      listener_.Store(Peek(2), Peek(3));
      listener_.NoteChange(Peek(2));
      return listener_.WriteItem(Peek(2), Peek(1), Peek(3));
    case DELETE_SUBSCR:
      listener_.NoteChange(Peek(2));
      return listener_.RemoveItem(Peek(2), Peek(1));
    case BINARY_SUBSCR:
      return listener_.UseItem(Peek(2), Peek(1));
    case CONTAINS_OP:
      return listener_.UseItem(Peek(1), Peek(2));
    case BINARY_OP:
      return Binary(arg);
    case COMPARE_OP:
      return listener_.CompareNumbers(static_cast<StreamListener::Order>(arg),
                                      Peek(2), Peek(1));
    case IS_OP:
      return listener_.Compare(Peek(2), Peek(1));
    case GET_ITER:
      // An iterator over an iterator is that one itself.
      if (PyRange_Check(Peek(1))) made_iterator_of_ = frame_;
      return listener_.Touch(Peek(1));
    case UNARY_NEGATIVE:
      return listener_.Negate(Peek(1));
    case UNARY_POSITIVE:
    case UNARY_INVERT:
    case GET_YIELD_FROM_ITER:
    case FOR_ITER:
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
    case GET_LEN:
    case MATCH_MAPPING:
    case MATCH_SEQUENCE:
    case LIST_EXTEND:
    case SET_UPDATE:
    case DICT_UPDATE:
    case DICT_MERGE:
      return listener_.Touch(Peek(1));
    case UNARY_NOT:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
      return listener_.TestTruth(Peek(1));
    case SEND:
      return listener_.Touch(Peek(2));
    case MATCH_KEYS:
      listener_.Touch(Peek(2));
      return listener_.Touch(Peek(1));
    case MATCH_CLASS:
      return listener_.Refuse("matches a class pattern");
    case FORMAT_VALUE:
      return listener_.Format(Peek((arg & 4) != 0 ? 2 : 1));
    case PRECALL:
      return Call(arg);
    case CALL_FUNCTION_EX:
      return CallEx(arg);
    case BEFORE_WITH:
      return With();
    case IMPORT_NAME:
      return Import(Name(code, arg));
    case IMPORT_STAR:
      return listener_.Refuse("imports all names of a module");
    case PRINT_EXPR:
      return listener_.Refuse("prints an expression");
    case GET_AWAITABLE:
    case GET_AITER:
    case GET_ANEXT:
    case BEFORE_ASYNC_WITH:
    case END_ASYNC_FOR:
    case ASYNC_GEN_WRAP:
      return listener_.Refuse("runs asynchronous code");
    default:
      return;
  }
}

// The number that is added to what the instruction at `at` reads, if the sum
// goes where that came from (`self.n += 1`) and nowhere else; `store` is then
// the instruction that puts it there.
PyRef OpcodeStream::FindAddend(const uint8_t* bytes, int at, int arg,
                               PyCodeObject* code, int* store) {
  const int opcode = bytes[2 * at];
  if (opcode != LOAD_ATTR && opcode != LOAD_GLOBAL && opcode != LOAD_DEREF &&
      opcode != BINARY_SUBSCR) {
    return PyRef();
  }
  const auto next = [&](int i) {
    do ++i;
    while (bytes[2 * i] == CACHE);
    return i;
  };
  const auto is = [&](int i, int wanted, int wanted_arg) {
    return bytes[2 * i] == wanted && bytes[2 * i + 1] == wanted_arg;
  };
  int i = next(at);
  if (bytes[2 * i] != LOAD_CONST) return PyRef();
  PyObject* number = PyTuple_GET_ITEM(code->co_consts, bytes[2 * i + 1]);
  i = next(i);
  constexpr int kAdd = 0, kSubtract = 10, kInplace = 13;
  if (bytes[2 * i] != BINARY_OP) return PyRef();
  const int operation = bytes[2 * i + 1];
  if (operation % kInplace != kAdd && operation % kInplace != kSubtract) {
    return PyRef();
  }
  if (!PyLong_CheckExact(number) && !PyFloat_CheckExact(number)) {
    return PyRef();
  }
  i = next(i);
  switch (opcode) {
    case LOAD_ATTR: {
      const bool copies = at > 0 && is(at - 1, COPY, 1) && is(i, SWAP, 2);
      const bool again = at > 0 && bytes[2 * (at - 1)] == LOAD_FAST &&
                         is(i, LOAD_FAST, bytes[2 * (at - 1) + 1]);
      if (!copies && !again) return PyRef();
      i = next(i);
      if (arg > 255 || !is(i, STORE_ATTR, arg)) return PyRef();
      break;
    }
    case LOAD_GLOBAL:
      if ((arg & 1) != 0 || arg > 255 || !is(i, STORE_GLOBAL, arg >> 1)) {
        return PyRef();
      }
      break;
    case LOAD_DEREF:
      if (arg > 255 || !is(i, STORE_DEREF, arg)) return PyRef();
      break;
    default:
      if (at < 2 || !is(at - 1, COPY, 2) || !is(at - 2, COPY, 2) ||
          !is(i, SWAP, 3)) {
        return PyRef();
      }
      i = next(i);
      if (!is(i, SWAP, 2)) return PyRef();
      i = next(i);
      if (bytes[2 * i] != STORE_SUBSCR) return PyRef();
  }
  *store = i;
  return operation % kInplace == kAdd ? PyRef::Share(number)
                                      : PyRef::Steal(PyNumber_Negative(number));
}

void OpcodeStream::Binary(int arg) {
  constexpr int kRemainder = 6;
  constexpr int kInplaceRemainder = 19;
  if (PyUnicode_Check(Peek(2)) &&
      (arg == kRemainder || arg == kInplaceRemainder)) {
    return listener_.Format(Peek(1));  // "%s" % value.
  }
  listener_.Binary(ScalarOp(arg), Peek(2), Peek(1));
}

void OpcodeStream::Call(int num_args) {
  // Below the arguments: the callable and, for methods, self; or NULL and the
  // callable.
  PyObject* method = Peek(num_args + 2);
  const bool is_method = method != nullptr;
  PyObject* callable = is_method ? method : Peek(num_args + 1);
  const int count = num_args + (is_method ? 1 : 0);
  listener_.Call(callable, {top_ - count, static_cast<size_t>(count)},
                 std::exchange(keyword_names_, nullptr));
}

void OpcodeStream::CallEx(int flags) {
  const bool has_keywords = (flags & 1) != 0;
  PyObject* keywords = has_keywords ? Peek(1) : nullptr;
  PyObject* positional = Peek(has_keywords ? 2 : 1);
  PyObject* callable = Peek(has_keywords ? 3 : 2);
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

void OpcodeStream::LoadName(PyObject* name) {
  PyObject* locals = frame_->f_locals;
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
