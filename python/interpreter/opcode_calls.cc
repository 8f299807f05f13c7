// What calls tell of their callables and arguments.

#include <utility>
#include <vector>

#include "python/interpreter/handing_on.h"
#include "python/interpreter/opcode_stream.h"

namespace mica {
namespace {

// Of a type in C that gives its items without running Python code.
bool GivesItemsPlainly(PyTypeObject* type) {
  return type == &PyRange_Type || type == &PyRangeIter_Type ||
         type == &PyDictKeys_Type || type == &PyDictValues_Type ||
         type == &PyDictItems_Type || type == &PyListIter_Type ||
         type == &PyListRevIter_Type || type == &PyTupleIter_Type;
}

}  // namespace

void OpcodeStream::NoteConsumer(PyObject* callable,
                                absl::Span<PyObject* const> args) {
  if (listener_.IsFollowedCall(callable)) return;
  if (listener_.Moves(callable)) {
    bool hands_on = true;
    for (PyObject* arg : args) hands_on &= HandsOnItems(arg, Follows());
    if (hands_on) return;
  }
  if (args.size() == 1 && HandsOnTextBy(callable, args[0])) return;
  consuming_.insert(frame_);
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
  const bool is_plain = GivesItemsPlainly(Py_TYPE(positional)) &&
                        !listener_.IsFollowedCall(callable);
  std::vector<PyObject*> args;
  if (PyTuple_Check(positional) || PyList_Check(positional) || is_plain) {
    PyRef items = PyRef::Steal(PySequence_Tuple(positional));
    if (!items) return PyErr_Clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      args.push_back(PyTuple_GET_ITEM(items.get(), i));
    }
    // The step would make the same tuple, and an iterator gives items once.
    if (is_plain) Py_SETREF(top_[-(num_keywords + 1)], items.release());
  } else if (listener_.TakesItemsOf(callable, positional)) {
    // What Python code gives to the iterator is looked at as it returns; what
    // else an iterator gives was looked at when that was made.
    returns_to_ = frame_;
  } else if (!listener_.IsFollowedCall(callable)) {
    return CallInPython(num_keywords);
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

void OpcodeStream::CallInPython(int num_keywords) {
  PyObject** positional = &top_[-(num_keywords + 1)];
  PyObject** callable = &top_[-(num_keywords + (kCallableIsFirst ? 3 : 2))];
  PyRef function = listener_.CallWithItems();
  if (!function || PyIter_Check(*positional) == 0) {
    return listener_.Refuse("unpacks arguments from what is no list or tuple");
  }
  consuming_.erase(frame_);
  PyRef args = PyRef::Steal(PyTuple_Pack(2, *callable, *positional));
  if (!args) return PyErr_Clear();
  Py_SETREF(*positional, args.release());
  Py_SETREF(*callable, function.release());
  CallSplat(num_keywords != 0);
}

}  // namespace mica
