// The random generators of Python and of numpy, as far as a run that is
// discarded needs them.

#ifndef MICA_PYTHON_CAPTURE_VALUES_GENERATORS_H_
#define MICA_PYTHON_CAPTURE_VALUES_GENERATORS_H_

#include <string>
#include <vector>

#include "python/interpreter/py_ref.h"

namespace mica {

// True for a random.Random, a numpy.random.RandomState or a
// numpy.random.Generator, of no subclass, whose state can be kept and put back.
bool IsKnownGenerator(PyObject* object);

// The states of some generators, to be put back should the numbers that were
// drawn from them not be used. Single-thread, under the GIL.
class GeneratorStates {
 public:
  // Keeps the state that `generator` has now. False, with no error set, for one
  // that isn't known.
  bool Add(PyObject* generator);
  // Notes that what was to be drawn is drawn.
  void EndDraws();
  // Puts all back, unless somebody has drawn from one since EndDraws(): the
  // numbers that another thread got aren't to come again.
  void PutBack();

 private:
  // Memory that is part of an object.
  struct Piece {
    PyRef owner;
    size_t offset = 0;
    std::string before;
    std::string after;
    PyRef lock;  // numpy's, of whoever draws without the GIL; may be null.

    char* data() const { return reinterpret_cast<char*>(owner.get()) + offset; }
  };
  // random.Random's second normal number, an attribute.
  struct Pending {
    PyRef generator;
    PyRef before;
    PyRef after;
  };
  void AddPiece(PyObject* owner, size_t offset, size_t bytes, PyObject* lock);
  bool AddBits(PyObject* bit_generator);
  bool AreAsDrawn() const;

  std::vector<Piece> pieces_;
  std::vector<Pending> pending_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_GENERATORS_H_
