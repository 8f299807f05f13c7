#include "framework/text/param_kinds.h"

namespace mica {

absl::string_view KindText(const Param& param) {
  switch (param.kind) {
    case ParamKind::kTensor:
      return "a tensor";
    case ParamKind::kTensorList:
      return "a list of tensors";
    case ParamKind::kScalar:
      return "a number or a host scalar";
    case ParamKind::kInt:
      return "an integer";
    case ParamKind::kIntList:
      return "a list of integers";
    case ParamKind::kFloat:
      return "a float";
    case ParamKind::kFloatList:
      return "a list of floats";
    case ParamKind::kBool:
      return "true or false";
    case ParamKind::kBoolList:
      return "a list of true and false";
    case ParamKind::kString:
      return "a string";
    case ParamKind::kDType:
      return "a dtype";
    case ParamKind::kOpaque:
      return "none";
  }
  return "";
}

}  // namespace mica
