#include "kernels/cuda/source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mica::cuda {

absl::string_view ElementName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "boolean";
    case DType::kU8:
      return "unsigned char";
    case DType::kI8:
      return "signed char";
    case DType::kI16:
      return "short";
    case DType::kI32:
      return "int";
    case DType::kI64:
      return "long long";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "double";
    default:
      return "float";
  }
}

absl::string_view NumberName(DType dtype) {
  if (dtype == DType::kF64) return "double";
  return IsFloating(dtype) ? "float" : "long long";
}

DType WideFloat(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

std::string IntegerLiteral(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) {
    return "(-9223372036854775807LL - 1)";
  }
  return absl::StrCat("(", value, "LL)");
}

std::string Literal(DType dtype, double value) {
  if (!IsFloating(dtype)) {
    constexpr double kLimit = 9223372036854775808.0;
    if (std::isnan(value) || value < -kLimit) {
      return IntegerLiteral(std::numeric_limits<int64_t>::min());
    }
    if (value >= kLimit) {
      return IntegerLiteral(std::numeric_limits<int64_t>::max());
    }
    return IntegerLiteral(static_cast<int64_t>(value));
  }
  const absl::string_view type = NumberName(dtype);
  if (std::isnan(value)) return absl::StrCat("(", type, ")not_a_number()");
  if (std::isinf(value)) {
    return absl::StrCat("(", value < 0 ? "-" : "", "(", type, ")infinity())");
  }
  return absl::StrFormat("((%s)%a)", type, value);
}

int64_t Loop::size() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1},
                         std::multiplies<>());
}

Loop Simplify(const Loop& loop, size_t leader) {
  std::vector<size_t> order;
  for (size_t d = 0; d < loop.dims.size(); ++d) {
    if (loop.dims[d] != 1) order.push_back(d);
  }
  const Dims& led = loop.strides[leader];
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return led[a] > led[b]; });
  Loop simple;
  simple.strides.resize(loop.strides.size());
  for (size_t d : order) {
    bool merges = !simple.dims.empty();
    for (size_t k = 0; merges && k < loop.strides.size(); ++k) {
      merges = simple.strides[k].back() == loop.strides[k][d] * loop.dims[d];
    }
    if (merges) {
      simple.dims.back() *= loop.dims[d];
    } else {
      simple.dims.push_back(loop.dims[d]);
    }
    for (size_t k = 0; k < loop.strides.size(); ++k) {
      Dims& strides = simple.strides[k];
      if (merges) strides.pop_back();
      strides.push_back(loop.strides[k][d]);
    }
  }
  return simple;
}

std::string OffsetsOf(const Loop& loop, absl::string_view index,
                      absl::Span<const std::string> names,
                      absl::string_view prefix) {
  const absl::string_view type = IndexName(loop.size());
  std::string code;
  std::vector<std::string> sums(names.size());
  std::string rest(index);
  for (size_t d = loop.dims.size(); d-- > 0;) {
    const std::string at = absl::StrCat(prefix, d);
    if (d == 0) {
      absl::StrAppend(&code, "    const ", type, " ", at, " = ", rest, ";\n");
    } else {
      absl::StrAppend(&code, "    const ", type, " ", at, " = ", rest, " % ",
                      loop.dims[d], ";\n");
      const std::string next = absl::StrCat(prefix, "rest", d);
      absl::StrAppend(&code, "    const ", type, " ", next, " = ", rest, " / ",
                      loop.dims[d], ";\n");
      rest = next;
    }
    for (size_t k = 0; k < names.size(); ++k) {
      if (loop.strides[k][d] == 0) continue;
      absl::StrAppend(&sums[k], sums[k].empty() ? "" : " + ", at, " * ",
                      IntegerLiteral(loop.strides[k][d]));
    }
  }
  for (size_t k = 0; k < names.size(); ++k) {
    absl::StrAppend(&code, "    const long long ", names[k], " = ",
                    sums[k].empty() ? "0" : sums[k], ";\n");
  }
  return code;
}

absl::string_view IndexName(int64_t count) {
  return count < (int64_t{1} << 31) ? "unsigned" : "unsigned long long";
}

}  // namespace mica::cuda
