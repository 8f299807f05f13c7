// What a bounded functools.lru_cache keeps.

#ifndef MICA_PYTHON_INTERPRETER_LRU_CACHE_H_
#define MICA_PYTHON_INTERPRETER_LRU_CACHE_H_

#include "python/interpreter/py_ref.h"

namespace mica {

// Where an item of the dict of such a cache has its result; null if `item` is
// no such item. A cache that is full uses the items of old results for new
// ones.
PyObject** LruCachePlace(PyObject* item);

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_LRU_CACHE_H_
