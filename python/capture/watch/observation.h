// Everything that observes one run.

#ifndef MICA_PYTHON_CAPTURE_WATCH_OBSERVATION_H_
#define MICA_PYTHON_CAPTURE_WATCH_OBSERVATION_H_

#include <memory>
#include <string>
#include <vector>

#include "python/capture/watch/state_watch.h"
#include "python/interpreter/stream.h"
#include "python/torch_side/recorder/recorder.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

// The interpreter's side and the dispatcher's side of a run, tied together.
// For one run, on the stack of the thread that makes it.
struct Observation {
  explicit Observation(std::string title);

  // The run begins. Requires: there is a stream.
  void Start() {
    recorder.Start();
    watch.modes().Begin();
    stream->Start();
  }
  // Ties what a step did below the dispatcher to the numbers that it took from
  // Python and gave to it.
  void EndStep(PyObject** result, bool entered);
  // Has the sizes followed that the program reads.
  void FollowSizes();
  // Has a run refused in which data decide sizes.
  void RefuseSizesOfData() {
    keeps_size_reads = false;
    recorder.RefuseSizesOfData();
  }
  // What the numbers that a tensor was indexed with become.
  void SettlePlaces(const Recorder::Mark& now, PyObject* result);
  // Has the tensors among an index's places be followed as what torch read of
  // them. False if the step read something else.
  bool ReadPlaces(const Recorder::Mark& now);
  // An operator that wants a number and got a tensor reads it first: a number
  // that it passes to itself.
  void AddReadArguments(const Recorder::Mark& now,
                        std::vector<PassedNumbers>* passed);
  // Whether operators that the step called went by ints that were read from
  // tensors: how long a slice is, say.
  void NoteSizeReads(const Recorder::Mark& now);

  PyFrameObject* caller;  // That the run is called from; may be null.
  StateWatch watch;
  Recorder recorder;
  std::unique_ptr<InterpreterStream> stream;
  Recorder::Mark mark;  // Where the step at hand began.
  bool follows_numbers = true;
  bool follows_places = true;  // Into indices: other compilers know none such.
  bool keeps_size_reads = true;     // Else the run is refused for them.
  std::vector<int32_t> size_reads;  // Calls that read such ints.
  size_t num_exact_reads = 0;       // By the end of the step before.
  // The first of autograd's that the run may make.
  const uint64_t first_node = NextGradientNode();
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_OBSERVATION_H_
