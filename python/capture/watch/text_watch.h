// What str.format() reads: attributes and items, by names in a text.

#ifndef MICA_PYTHON_CAPTURE_WATCH_TEXT_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_TEXT_WATCH_H_

#include <string>

#include "absl/types/span.h"
#include "python/capture/watch/attribute_watch.h"
#include "python/capture/watch/item_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Notes all that a text shows which the program makes.
class TextWatch final : public WatchPart {
 public:
  TextWatch(WatchGround& ground, ObjectWatch& objects,
            AttributeWatch& attributes, ItemWatch& items)
      : WatchPart(ground),
        objects_(objects),
        attributes_(attributes),
        items_(items) {}

  // The program calls repr(), str.format() or another that makes text of
  // `args`, what it is bound to first.
  void Make(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names);

 private:
  // The arguments of one call of str.format() or str.format_map().
  struct Arguments {
    Arguments(absl::Span<PyObject* const> args, PyObject* names, PyObject* map);

    absl::Span<PyObject* const> positional;
    absl::Span<PyObject* const> keywords;
    PyObject* keyword_names;
    PyObject* map;
    size_t next = 0;  // Of "{}".
  };

  // "{0.a[b]:{width}}", and again for what says how it is shown.
  void UseFields(PyObject* text, Arguments* arguments);
  void UseField(PyObject* name, Arguments* arguments);
  // Null where there is none: the program will raise.
  PyRef Find(PyObject* name, Arguments* arguments);
  PyRef Item(PyObject* object, PyObject* key);
  PyRef Attribute(PyObject* object, PyObject* name);
  PyRef RefuseText(const std::string& what, PyObject* object);

  ObjectWatch& objects_;
  AttributeWatch& attributes_;
  ItemWatch& items_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_TEXT_WATCH_H_
