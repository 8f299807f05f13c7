#include "python/interpreter/gc_pause.h"

#include "python/interpreter/cpython_runtime.h"

namespace mica {

int& GcPause::IsRunning() {
  static int& flag = PyInterpreterState_Get()->gc.collecting;
  return flag;
}

}  // namespace mica
