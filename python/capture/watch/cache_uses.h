// What functools.lru_cache keeps.

#ifndef MICA_PYTHON_CAPTURE_WATCH_CACHE_USES_H_
#define MICA_PYTHON_CAPTURE_WATCH_CACHE_USES_H_

#include <cstdint>
#include <vector>

#include "python/capture/watch/watch_part.h"

namespace mica {

// The caches that a run asked, and how often: they have to know the answers.
class CacheUses final : public WatchPart {
 public:
  explicit CacheUses(WatchGround& ground) : WatchPart(ground) {}

  // Notes that `num_calls` are made of `wrapper`, which lru_cache() made.
  void Use(PyObject* wrapper, int num_calls);
  // Of a library's own, in which nobody looks.
  static bool IsLibraryCache(PyObject* wrapper);
  // False, refused, if one computed something.
  bool Check();

 private:
  struct CacheUse {
    PyRef wrapper;
    int64_t hits = 0, misses = 0;  // Before the run.
    int64_t num_calls = 0;
    UserLine at;
    FrameSites places;
  };
  std::vector<CacheUse> uses_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_CACHE_USES_H_
