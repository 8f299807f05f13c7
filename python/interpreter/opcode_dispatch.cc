// What each instruction tells of its operands; opcode_calls.cc has calls.

#include "python/interpreter/handing_on.h"
#include "python/interpreter/opcode_stream.h"

namespace mica {
namespace {

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

}  // namespace

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
    case Act::kAdvance:
    case Act::kTouch:  // Mostly iteration.
      return HandsOnItems(Peek(1), Follows());
    case Act::kTouchSecond:
      return HandsOnItems(Peek(2), Follows());
    case Act::kTouchBoth:
      return HandsOnResult(Peek(2), Peek(1));
    case Act::kFormat:
      return (instruction.arg & 3) == 0 &&
             HandsOnText(Peek(instruction.arg == 0 ? 1 : 2),
                         /*has_spec=*/instruction.arg != 0);
    case Act::kTruth:
    case Act::kCompareForTruth:
    case Act::kTouchAndTake:
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
  // The rest moves values, or jumps.
  if (instruction.act == Act::kJoin) {
    return listener_.Join(
        {top_ - instruction.arg, static_cast<size_t>(instruction.arg)});
  }
  if (DispatchPlace(instruction, code) || DispatchItem(instruction)) return;
  DispatchValue(instruction, code);
}

bool OpcodeStream::DispatchPlace(const Instruction& instruction,
                                 PyCodeObject* code) {
  const int arg = instruction.arg;
  switch (instruction.act) {
    case Act::kLoadGlobal:
      listener_.ReadGlobal(frame_->f_globals, frame_->f_builtins,
                           Name(code, arg));
      return true;
    case Act::kStoreGlobal:
      listener_.Store(nullptr, Peek(1));
      listener_.WriteGlobal(frame_->f_globals, Name(code, arg));
      return true;
    case Act::kDeleteGlobal:
      listener_.RemoveItem(frame_->f_globals, Name(code, arg));
      return true;
    case Act::kLoadName:
      LoadName(frame_->f_locals, Name(code, arg));
      return true;
    case Act::kLoadFromDictOrGlobal:
      LoadName(Peek(1), Name(code, arg));
      return true;
    case Act::kStoreName:
      if (frame_->f_locals == frame_->f_globals) {
        listener_.Refuse("runs a module's body");
      }
      return true;
    case Act::kLoadAttr:
      listener_.ReadAttribute(Peek(1), Name(code, arg));
      return true;
    case Act::kLoadSuperAttr:
    case Act::kLoadOwnSuperAttr:
      LoadSuperAttribute(Name(code, arg),
                         instruction.act == Act::kLoadOwnSuperAttr);
      return true;
    case Act::kStoreAttr:
      listener_.Store(Peek(1), Peek(2));
      listener_.WriteAttribute(Peek(1), Name(code, arg));
      return true;
    case Act::kDeleteAttr:
      listener_.RemoveAttribute(Peek(1), Name(code, arg));
      return true;
    case Act::kLoadDeref:
      listener_.ReadCell(frame_->localsplus[arg], VariableName(code, arg));
      return true;
    case Act::kStoreDeref:
      listener_.Store(frame_->localsplus[arg], Peek(1));
      listener_.WriteCell(frame_->localsplus[arg], VariableName(code, arg));
      return true;
    case Act::kImport:
      Import(Name(code, arg));
      return true;
    default:
      return false;
  }
}

bool OpcodeStream::DispatchItem(const Instruction& instruction) {
  const int arg = instruction.arg;
  switch (instruction.act) {
    case Act::kLoadItem:
      listener_.UseItem(Peek(2), Peek(1));
      if (PyRef other = listener_.TakeInPlaceOfItems(Peek(2), Peek(1))) {
        taking_.erase(frame_);  // As HandsOn() says of it.
        Py_SETREF(top_[-2], other.release());
      }
      return true;
    case Act::kStoreItem:
      listener_.ReplaceStore(&top_[-2], &top_[-1], &top_[-3]);
      listener_.Store(Peek(2), Peek(3));
      listener_.NoteChange(Peek(2));
      listener_.WriteItem(Peek(2), Peek(1), Peek(3));
      return true;
    case Act::kDeleteItem:
      listener_.NoteChange(Peek(2));
      listener_.RemoveItem(Peek(2), Peek(1));
      return true;
    case Act::kLoadSlice:
      if (Slice() != nullptr) listener_.UseItem(Peek(3), made_.get());
      return true;
    case Act::kStoreSlice:
      if (PyObject* slice = Slice())
        listener_.ReplaceStore(&top_[-3], &slice, &top_[-4]);
      listener_.Store(Peek(3), Peek(4));
      listener_.NoteChange(Peek(3));
      if (made_) listener_.WriteItem(Peek(3), made_.get(), Peek(4));
      return true;
    case Act::kContains:
      consuming_.insert(frame_);
      listener_.Contains(Peek(1), Peek(2));
      return true;
    case Act::kMakeIterator:
      // An iterator over an iterator is that one itself.
      if (PyRange_Check(Peek(1))) made_iterator_of_ = frame_;
      listener_.MakeIterator(Peek(1));
      return true;
    case Act::kAdvance:
      Advance();
      return true;
    case Act::kHash:
      listener_.Hash(Peek(arg));
      return true;
    case Act::kHashItems:
      for (int i = 1; i <= arg; ++i) listener_.Hash(Peek(i));
      return true;
    case Act::kHashKeys:
      for (int i = 1; i <= arg; ++i) listener_.Hash(Peek(2 * i));
      return true;
    case Act::kHashAll:
      consuming_.insert(frame_);
      listener_.Inspect(Peek(1));
      listener_.Touch(Peek(1));
      return true;
    default:
      return false;
  }
}

bool OpcodeStream::DispatchValue(const Instruction& instruction,
                                 PyCodeObject* code) {
  const int arg = instruction.arg;
  switch (instruction.act) {
    case Act::kRefuse:
      listener_.Refuse(TextOf(static_cast<Reason>(arg)));
      return true;
    case Act::kKeywordNames:
      keyword_names_ = Constant(code, arg);
      return true;
    case Act::kLoadConst:
      listener_.LoadConstant(Constant(code, arg));
      return true;
    case Act::kBinary:
      Binary(arg);
      return true;
    case Act::kCompare:
    case Act::kCompareForTruth:
      listener_.CompareNumbers(static_cast<Order>(arg), Peek(2), Peek(1));
      return true;
    case Act::kIs:
      listener_.Compare(&top_[-2], &top_[-1]);
      return true;
    case Act::kNegate:
      listener_.Negate(Peek(1));
      return true;
    case Act::kTouch:
    case Act::kTouchAndTake:
      listener_.Touch(Peek(1));
      return true;
    case Act::kTruth:
      listener_.TestTruth(Peek(1));
      return true;
    case Act::kTouchSecond:
      listener_.Touch(Peek(2));
      return true;
    case Act::kTouchBoth:
      listener_.Touch(Peek(2));
      listener_.Touch(Peek(1));
      return true;
    case Act::kFormat:
      Format(arg);
      return true;
    default:
      return DispatchCall(instruction);
  }
}

bool OpcodeStream::DispatchCall(const Instruction& instruction) {
  const int arg = instruction.arg;
  switch (instruction.act) {
    case Act::kCall:
      Call(arg, /*num_above=*/0);
      return true;
    case Act::kCallKeywords:
      keyword_names_ = Peek(1);
      Call(arg, /*num_above=*/1);
      return true;
    case Act::kCallSplat:
      CallSplat(arg != 0);
      return true;
    case Act::kWith:
      With();
      return true;
    case Act::kLeaveWith:
      LeaveWith();
      return true;
    default:
      return false;
  }
}

void OpcodeStream::Format(int arg) {
  const bool has_spec = (arg & 4) != 0;
  listener_.Format(Peek(has_spec ? 2 : 1), arg & 3,
                   has_spec ? Peek(1) : nullptr);
}

void OpcodeStream::Binary(int operation) {
  constexpr int kRemainder = 6;
  constexpr int kInplaceRemainder = 19, kInplaceAdd = 13;
  if (PyUnicode_Check(Peek(2)) &&
      (operation == kRemainder || operation == kInplaceRemainder)) {
    if (PyRef other = listener_.TakeInPlaceOfFormat(Peek(2), Peek(1))) {
      taking_.erase(frame_);  // As HandsOn() says of it.
      Py_SETREF(top_[-2], other.release());
      return;
    }
    return listener_.FormatBy(Peek(2), Peek(1));
  }
  if (operation == kInplaceAdd && PyList_CheckExact(Peek(2))) {
    listener_.Extend(Peek(2), Peek(1));
  }
  listener_.Binary(OperatorWord(operation), Peek(2), Peek(1));
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

void OpcodeStream::LeaveWith() {
  PyObject* exit = Peek(4);
  if (!PyCFunction_Check(exit)) return;  // Python code is announced itself.
  PyObject* error = Peek(1);
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(error));
  PyObject* args[] = {type, error, Py_None};
  listener_.Call(exit, args, nullptr);
}

void OpcodeStream::LoadName(PyObject* locals, PyObject* name) {
  if (locals != nullptr && locals != frame_->f_globals &&
      PyDict_CheckExact(locals)) {
    if (PyDict_GetItemWithError(locals, name) != nullptr) return;
  }
  listener_.ReadGlobal(frame_->f_globals, frame_->f_builtins, name);
}

}  // namespace mica
