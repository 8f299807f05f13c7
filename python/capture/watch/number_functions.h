// Functions of Python's that ask about numbers.

#ifndef MICA_PYTHON_CAPTURE_WATCH_NUMBER_FUNCTIONS_H_
#define MICA_PYTHON_CAPTURE_WATCH_NUMBER_FUNCTIONS_H_

#include <string>

#include "absl/types/span.h"
#include "python/capture/watch/identity_watch.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/written_places.h"

namespace mica {

// Makes comparisons and operators of calls with promoted scalars: max(), sum()
// and their like.
class NumberFunctions final : public WatchPart {
 public:
  NumberFunctions(WatchGround& ground, const WrittenPlaces& written,
                  IdentityWatch& identity, ObjectWatch& objects,
                  NumberWatch& numbers)
      : WatchPart(ground),
        written_(written),
        identity_(identity),
        objects_(objects),
        numbers_(numbers) {}

  // Whether a call of a builtin only asks which of its numbers is larger or
  // whether one is finite, adds them up or rounds one; noted if so.
  bool Ask(PyObject* function, absl::Span<PyObject* const> args);
  // The same of a function of numpy's that tells whether a known number is
  // finite, or computes a number.
  bool AskNumpy(PyObject* function, absl::Span<PyObject* const> args);
  // Whether it rounds a known number, or takes it without its sign; computed if
  // so.
  bool Round(const std::string& function, absl::Span<PyObject* const> args);
  // round(number, places), of a float.
  bool RoundTo(PyObject* number, PyObject* places);
  // Whether `item in container` asks for a known number among few; noted if so.
  bool Contains(PyObject* container, PyObject* item);

 private:
  using Order = NumberWatch::Order;
  // Of bisect(), for the place of a number among others.
  bool AskForPlace(const std::string& function,
                   absl::Span<PyObject* const> args);
  // Of pow(), which is computed.
  bool RaiseToPower(const std::string& function,
                    absl::Span<PyObject* const> args);
  // Of math.log() with a base, which is computed.
  bool TakeLogarithm(const std::string& function,
                     absl::Span<PyObject* const> args);
  // Of min() and max().
  bool AskForExtreme(const std::string& function,
                     absl::Span<PyObject* const> args);
  // Whether all are floats; computed if so.
  bool FindExtreme(const HostOp* op, absl::Span<PyObject* const> args);
  // The same of ints, whoever holds them: results have the very object again
  // (HostValues::PickedFrom()).
  bool FindWholeExtreme(const HostOp* op, absl::Span<PyObject* const> args);
  // Of math.isnan() and its like.
  bool AskForKind(const std::string& function,
                  absl::Span<PyObject* const> args);
  // The largest or smallest, of numbers of one type that all may vary.
  bool FoldExtreme(const HostOp* op, absl::Span<PyObject* const> args);
  // `total` becomes `result`, which is `op` of it and `number`, in an object of
  // its own. False if it is no number that can be followed.
  bool Fold(const HostOp* op, PyObject* number, const PyRef& result,
            PyRef* total);
  // Whether sum() is of few numbers; computed if so.
  bool AddUp(absl::Span<PyObject* const> args);

  const WrittenPlaces& written_;
  IdentityWatch& identity_;
  ObjectWatch& objects_;
  NumberWatch& numbers_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_NUMBER_FUNCTIONS_H_
