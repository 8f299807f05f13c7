// Numpy's arrays, and tensors whose memory they share.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ARRAY_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_ARRAY_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

class ArrayWatch final : public WatchPart {
 public:
  explicit ArrayWatch(WatchGround& ground) : WatchPart(ground) {}

  // A call that makes a tensor, or another array, of one in a tensor's memory:
  // has the same made of the tensor. False for any other call.
  bool Follow(PyObject* callable, absl::Span<PyObject* const> args,
              PyObject* keyword_names);
  // Whether reading `name` of such an array tells of its form alone, or only
  // looks up a method that is followed where it is called.
  bool TellsForm(PyObject* owner, PyObject* name);
  // container[key], if that shows a part of such an array.
  bool UseItem(PyObject* container, PyObject* key);
  // array[key] = value, if torch stores the same in the memory of such an
  // array: puts tensors in place of the three.
  void ReplaceStore(PyObject** container, PyObject** key, PyObject** value);
  // The tensor in whose memory an array is; null if that isn't known of it.
  PyObject* TensorOf(PyObject* array) const { return TensorOf({&array, 1}); }
  // A tensor in an array's memory, of which the recorder isn't told; null if
  // there can be none.
  PyRef AsTensor(PyObject* array) const;
  // The program goes by the form of one.
  void NoteForm() { reads_shapes_ = true; }
  // The step at hand gives an array in the memory of `tensor`, which may be
  // null and was made of `from`.
  bool Show(PyRef tensor, absl::Span<PyObject* const> from);
  // tensor[key], where the key has such arrays of places: what the tensor is to
  // be indexed with instead; of masks, too, where something is stored. Null for
  // any other.
  enum class Masks { kNo, kYes };
  PyRef PlacesOf(PyObject* tensor, PyObject* key,
                 Masks masks = Masks::kNo) const;
  // An older array, of which nothing is known but what is in it, is written or
  // used with what varies: true if it is read as an argument is from the next
  // call on. This one is refused, for `what` and the array's path.
  bool WantAsArgument(PyObject* array, const char* what);
  // Whether the program asked for the form of one.
  bool reads_shapes() const { return reads_shapes_; }
  // What the step at hand gave; may be null.
  void EndStep(PyObject* result);
  // What a step that entered another function gave in the end.
  void CameBack(PyObject* result);
  // A tensor whose memory numpy can write too.
  void Expose(PyObject* tensor);
  // What numpy does on overflow, division by 0 and the like.
  void TouchContext();
  // Of a tensor whose memory a numpy array shares and that isn't as it was
  // then; "" if there is none.
  std::string ChangedExposed() const;

 private:
  // Of the first argument; null if that is no array in a tensor's memory.
  PyObject* TensorOf(absl::Span<PyObject* const> args) const;
  // A tensor that holds the same as an array or a tensor that is stored where
  // the tensor `place` shows; null if numpy may do it otherwise.
  PyRef StoredTensor(PyObject* value, PyObject* place) const;
  bool FollowMethod(PyObject* callable, absl::Span<PyObject* const> all);
  // What makes a tensor of an array.
  bool FollowMaker(PyObject* tensor, PyObject* callable,
                   absl::Span<PyObject* const> args, PyObject* keyword_names);
  // What the step at hand gave of such an array may show its memory.
  void AddView(PyObject* result);
  // What shows an array's memory: by these arguments.
  bool FollowView(PyObject* tensor, absl::Span<PyObject* const> args);
  // A function of numpy's, of this name, of one array alone.
  bool FollowWhole(absl::string_view name, PyObject* tensor);
  // A copy, in order; no dtype: the array's own.
  bool FollowCopy(PyObject* tensor, PyObject* dtype);
  // numpy.array(), stack() or concatenate() of a list of arrays that are alike.
  bool FollowJoined(absl::string_view name, PyObject* arrays);
  // A call of tensor.to(dtype); no dtype: its own.
  static PyRef Convert(PyRef tensor, PyObject* dtype, bool copies);
  // An array that numpy gave: a new one, unless it is one of its arguments.
  void AddNew(PyObject* array);
  // What the step at hand took from an array.
  void AddTaken(PyObject* result);
  // A new tensor that holds Python's values only, if it is one.
  void AddMade(PyObject* result);
  // After a step with numpy's arrays: refuses what was written past torch, even
  // if it is undone later.
  void CheckSharedMemory();

  struct Exposed {
    PyRef tensor;
    int64_t version = 0;
    std::string bytes;
  };
  std::vector<Exposed> exposed_;
  bool reads_shapes_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ARRAY_WATCH_H_
