// Texts that a program makes of numbers which may be others at each run.

#ifndef MICA_PYTHON_CAPTURE_WATCH_TEXT_SOURCES_H_
#define MICA_PYTHON_CAPTURE_WATCH_TEXT_SOURCES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Follows such texts, as NumberWatch follows numbers: f-strings, format(),
// str(), `%`, `+`, methods of str. A text that is printed, returned or left in
// the state is made again at each hit (HostValues::recipe()). Who looks into
// one, compares it, or takes it for a key, uses its numbers exactly.
//
// A step tells what it makes text by before anything looks at its operands:
// until it ends, exact uses are only noted.
class TextSources final : public WatchPart {
 public:
  explicit TextSources(WatchGround& ground) : WatchPart(ground) {}

  void BeginStep();
  // Another object of the value of `top` may be put there.
  void EndStep(PyObject** top, bool entered);

  // See StreamListener.
  void Format(PyObject* value, int conversion, PyObject* spec);
  void FormatBy(PyObject* text, PyObject* value);
  // Whether text % value shows the numbers of tensors, by `%f` and its like.
  static bool ShowsTensors(PyObject* text, PyObject* value);
  void Join(absl::Span<PyObject* const> texts);
  void Binary(const char* op, PyObject* a, PyObject* b);
  // `callable` is in C. A method may be bound.
  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names);

  // Whether reading `name` of a number or a text that is followed only looks up
  // a method, which gets it when it is called.
  bool IsMethodOf(PyObject* owner, PyObject* name) const;
  // Whether a call gets texts as they are, and looks at none.
  static bool HandsOn(PyObject* callable);

 private:
  // Whether a format is one for all numbers: that of a character isn't, nor may
  // be one that is made of numbers itself.
  bool IsSpecOfAll(PyObject* spec) const;
  // The step makes what function(args…) gives.
  void Make(PyObject* function, absl::Span<PyObject* const> args,
            PyObject* keyword_names = nullptr);
  // False if the result isn't just what the recipe gives.
  bool Follow(PyObject** top, const std::vector<HostValues::Id>& uses);
  // No recipe: what was noted is exact.
  void Settle();

  TextRecipe recipe_;  // Of the step at hand; no function if it makes no text.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_TEXT_SOURCES_H_
