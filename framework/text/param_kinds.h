// What parameters want, in words.

#ifndef MICA_FRAMEWORK_TEXT_PARAM_KINDS_H_
#define MICA_FRAMEWORK_TEXT_PARAM_KINDS_H_

#include "absl/strings/string_view.h"
#include "framework/op/schema.h"

namespace mica {

// "a list of integers": how errors say what an argument should have been.
absl::string_view KindText(const Param& param);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_PARAM_KINDS_H_
