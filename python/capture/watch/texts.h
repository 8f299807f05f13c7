// What str.format() reads: attributes and items, by names in a text.

#ifndef MICA_PYTHON_CAPTURE_WATCH_TEXTS_H_
#define MICA_PYTHON_CAPTURE_WATCH_TEXTS_H_

#include "absl/types/span.h"
#include "python/capture/watch/state_watch.h"

namespace mica {

// The program calls repr(), str.format() or another that makes text of `args`,
// what it is bound to first: tells `watch` of all that the text shows.
void MakeText(PyObject* callable, absl::Span<PyObject* const> args,
              PyObject* keyword_names, StateWatch& watch);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_TEXTS_H_
