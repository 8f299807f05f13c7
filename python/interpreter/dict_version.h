// Whether a dict is as it was, at the price of a load.

#ifndef MICA_PYTHON_INTERPRETER_DICT_VERSION_H_
#define MICA_PYTHON_INTERPRETER_DICT_VERSION_H_

#include <cstdint>

#include "python/interpreter/py_ref.h"

namespace mica {

// Parts a dict of an object's attributes from the values in the object, which
// change without the dict's version; contents and order stay. For 3.13.
void OwnValues(PyDictObject* dict);

// Changes whenever the dict does, and never comes back.
//
// CPython's own tag: 3.11 counts with all of its bits, 3.12 keeps the lowest 8
// for watchers, 3.13 the lowest 12. On 3.13 an object's attributes may change
// in the object, without the tag and unseen by watchers (PyDict_Watch), while a
// dict shows them: such a dict gets values of its own first, as it always had
// on 3.11 and 3.12.
inline uint64_t DictVersion(PyDictObject* dict) {
#if PY_VERSION_HEX < 0x030c0000
  return dict->ma_version_tag;
#elif PY_VERSION_HEX < 0x030d0000
  return dict->ma_version_tag >> 8;
#else
  if (dict->ma_values != nullptr) OwnValues(dict);
  return dict->ma_version_tag >> 12;
#endif
}

// Where a dict has its version: 8 bytes that differ when the version does. On
// 3.12 and 3.13 watchers make them differ, too.
inline const void* VersionPlace(PyDictObject* dict) {
#if PY_VERSION_HEX >= 0x030d0000
  if (dict->ma_values != nullptr) OwnValues(dict);
#endif
  return &dict->ma_version_tag;
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_DICT_VERSION_H_
