// Which warnings are errors, or are shown each time they are given.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_LOUD_WARNINGS_H_
#define MICA_PYTHON_CAPTURE_KNOWN_LOUD_WARNINGS_H_

#include <cstdint>

namespace mica {

// The filters of Python's warnings that do that, with those that go before
// them, as a number: the same for equal ones, 0 if there is none. Code in C,
// numpy's and torch's above all, may give a warning in any call, which no hit
// repeats. Runs no Python code; requires the GIL.
int64_t LoudWarnings();

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_LOUD_WARNINGS_H_
