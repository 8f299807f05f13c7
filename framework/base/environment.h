// What the process' environment says.

#ifndef MICA_FRAMEWORK_BASE_ENVIRONMENT_H_
#define MICA_FRAMEWORK_BASE_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

namespace mica {

// "" if it isn't set.
inline std::string EnvironmentVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_ENVIRONMENT_H_
