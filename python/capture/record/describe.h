// A record taken apart for mica.export().

#ifndef MICA_PYTHON_CAPTURE_RECORD_DESCRIBE_H_
#define MICA_PYTHON_CAPTURE_RECORD_DESCRIBE_H_

#include "absl/types/span.h"
#include "python/capture/effects/effects.h"
#include "python/capture/record/record.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A new dict, or null with a Python error set. A node is a tuple of its kind,
// its class or object, its number, its keys, attribute names and children.
//
//   program      the text
//   inputs       nodes of the arguments, with their paths as last entries
//   roots        the nodes of the arguments, those by keyword last
//   keywords     the names of the latter
//   results      nodes of the result
//   result_root  the outermost one
//   windows      (source, index, sizes, strides, offset) of each result tensor
//   numbers      (node or -1, path, value) of each number that is an input,
//                behind the tensors; the value is the one that it has now
//   number_outputs  the Program's outputs that are the result's numbers
//   guards       readable expressions, with the user's line
//   guard_kinds  of each, as Record::GuardsToText() has them
//   effects      likewise
//   hits         calls that it served
//   states       tensors of the program's state: its first variables
//   lost_gradients  names of gradients that the program puts others in place of
//   constants    bytes of each further variable
//   host_reads   "file:line" of each number that the program looked at
PyRef DescribeRecord(const Record& record);

// What a hit may touch of the program's state: a new dict, or null with a
// Python error set.
//
//   states   tensors that it reads or writes; None for a gradient not there
//   leaves   tensors whose gradients it may set
//   written  (text, dict, key) of each item that it sets or removes
//   calls    whether it makes calls into the world outside
PyRef DescribeTouched(const Record& record);
// (callable, arguments, names of the last ones or None, text) of each.
PyRef DescribeCalls(absl::Span<const HostCall> calls);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_DESCRIBE_H_
