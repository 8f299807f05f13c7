// Kinds of Python's objects: which hold others, which hold nothing.

#ifndef MICA_PYTHON_CAPTURE_WATCH_OBJECT_KINDS_H_
#define MICA_PYTHON_CAPTURE_WATCH_OBJECT_KINDS_H_

#include <vector>

#include "python/interpreter/py_ref.h"

namespace mica {

// A dict, list, tuple, set or deque, or of a class that builds on one.
bool IsContainer(PyObject* object);
// Of C's: an iterator or a dict's view, which gives what others hold.
bool GivesItems(PyObject* object);
// The items of a container, or what an iterator holds.
std::vector<PyRef> HeldBy(PyObject* object);
// A dict's keys, and another container's items; borrowed.
std::vector<PyObject*> ItemsOrKeys(PyObject* container);
// Whether a tensor is in a sequence, at any depth, or in one that only Python
// code knows.
bool HoldsTensors(PyObject* sequence, int depth = 0);
// Whether that is so of one of the sequences that an index consists of.
bool HoldsListsOfTensors(PyObject* index);
// Kinds of object that hold nothing that a program could change unseen.
bool IsInert(PyObject* object);
// Whether C code keeps what an attribute is, that a class has `descriptor` for;
// null if it has none.
bool IsKeptInC(PyObject* descriptor);
// What functools.lru_cache() made.
bool IsLruCache(PyObject* object);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_OBJECT_KINDS_H_
