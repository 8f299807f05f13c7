#include "framework/tensor/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "framework/tensor/tensor_file.h"

namespace mica {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files hold little-endian numbers, which are copied as they are");

constexpr absl::string_view kMagic("\x93NUMPY", 6);
// Magic, two version bytes, and the header's length as two or four bytes.
constexpr int64_t kPrefixBytesV1 = 10;
constexpr int64_t kPrefixBytesV2 = 12;
constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxHeaderBytes = 1 << 16;

struct DescrWord {
  absl::string_view word;
  DType dtype;
};
constexpr DescrWord kDescrWords[] = {
    {"<f4", DType::kF32}, {"<f8", DType::kF64},   {"<f2", DType::kF16},
    {"<i8", DType::kI64}, {"<i4", DType::kI32},   {"<i2", DType::kI16},
    {"|i1", DType::kI8},  {"|u1", DType::kU8},    {"|b1", DType::kBool},
    {"<c8", DType::kC64}, {"<c16", DType::kC128},
};

absl::StatusOr<DType> DTypeFromDescr(absl::string_view descr) {
  for (const DescrWord& known : kDescrWords) {
    if (descr == known.word) return known.dtype;
  }
  return absl::UnimplementedError(absl::StrCat(
      "descr '", descr, "': wants a little-endian number or bool"));
}

// Reads the few literals of a header from the front of a text.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : rest_(text) {}

  // Takes `token` if it comes next, after blanks.
  bool Take(absl::string_view token) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, token);
  }

  absl::Status Want(absl::string_view token) {
    if (Take(token)) return absl::OkStatus();
    return Invalid("header: wants \"", token, "\" at \"", rest_.substr(0, 20),
                   "\"");
  }

  // A string without escapes in either kind of quotes.
  absl::StatusOr<std::string> String() {
    const char* quote = Take("'") ? "'" : "\"";
    if (*quote == '"') MICA_RETURN_IF_ERROR(Want("\""));
    const size_t end = rest_.find(*quote);
    const absl::string_view word = rest_.substr(0, end);
    if (end == absl::string_view::npos ||
        word.find('\\') != absl::string_view::npos) {
      return Invalid("header: wants a plain string");
    }
    rest_.remove_prefix(end + 1);
    return std::string(word);
  }

  absl::StatusOr<bool> Bool() {
    if (Take("True")) return true;
    if (Take("False")) return false;
    return Invalid("header: wants True or False");
  }

  // "()", "(3,)" or "(3, 4)".
  absl::StatusOr<Dims> Tuple() {
    MICA_RETURN_IF_ERROR(Want("("));
    Dims dims;
    while (!Take(")")) {
      MICA_ASSIGN_OR_RETURN(const int64_t dim, Natural());
      dims.push_back(dim);
      if (Take(",")) continue;
      MICA_RETURN_IF_ERROR(Want(")"));
      if (dims.size() == 1) return Invalid("header: wants a tuple");
      break;
    }
    return dims;
  }

  bool at_end() {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return rest_.empty();
  }

 private:
  absl::StatusOr<int64_t> Natural() {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    size_t length = 0;
    while (length < rest_.size() && absl::ascii_isdigit(rest_[length])) {
      ++length;
    }
    int64_t number = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, length), &number)) {
      return Invalid("header: wants a non-negative integer at \"",
                     rest_.substr(0, 20), "\"");
    }
    rest_.remove_prefix(length);
    return number;
  }

  absl::string_view rest_;
};

struct HeaderFields {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Dims> shape;
};

absl::Status ParseField(Scanner& scanner, HeaderFields& fields) {
  MICA_ASSIGN_OR_RETURN(const std::string key, scanner.String());
  MICA_RETURN_IF_ERROR(scanner.Want(":"));
  if (key == "descr" && !fields.descr.has_value()) {
    MICA_ASSIGN_OR_RETURN(fields.descr, scanner.String());
  } else if (key == "fortran_order" && !fields.fortran_order.has_value()) {
    MICA_ASSIGN_OR_RETURN(fields.fortran_order, scanner.Bool());
  } else if (key == "shape" && !fields.shape.has_value()) {
    MICA_ASSIGN_OR_RETURN(fields.shape, scanner.Tuple());
  } else {
    return Invalid("header: unknown or repeated field '", key, "'");
  }
  return absl::OkStatus();
}

// Requires that no dimension is empty.
Dims ColumnMajorStrides(const Dims& dims) {
  Dims strides;
  int64_t stride = 1;
  for (Dim dim : dims) {
    strides.push_back(stride);
    stride *= dim;
  }
  return strides;
}

struct Prefix {
  int64_t header_bytes = 0;
  int64_t header_start = 0;
  int64_t data_start() const { return header_start + header_bytes; }
};

absl::StatusOr<Prefix> ReadPrefix(const InputFile& file) {
  char bytes[kPrefixBytesV2] = {};
  MICA_RETURN_IF_ERROR(file.ReadAt(0, bytes, kPrefixBytesV1));
  if (absl::string_view(bytes, kMagic.size()) != kMagic) {
    return Invalid("not an npy file");
  }
  const int version = bytes[kMagic.size()];
  const int minor = bytes[kMagic.size() + 1];
  if (version < 1 || version > 3 || minor != 0) {
    return Invalid("npy version ", version, ".", minor,
                   ": wants 1.0, 2.0 or 3.0");
  }
  Prefix prefix{.header_start = version == 1 ? kPrefixBytesV1 : kPrefixBytesV2};
  MICA_RETURN_IF_ERROR(file.ReadAt(0, bytes, prefix.header_start));
  uint32_t length = 0;
  std::memcpy(&length, bytes + kMagic.size() + 2, version == 1 ? 2 : 4);
  if (length > kMaxHeaderBytes) {
    return Invalid("header of ", length, " bytes: wants at most ",
                   kMaxHeaderBytes);
  }
  prefix.header_bytes = length;
  return prefix;
}

absl::StatusOr<Tensor> ReadOpenedNpy(const InputFile& file) {
  MICA_ASSIGN_OR_RETURN(const Prefix prefix, ReadPrefix(file));
  std::string text(prefix.header_bytes, '\0');
  MICA_RETURN_IF_ERROR(
      file.ReadAt(prefix.header_start, text.data(), prefix.header_bytes));
  MICA_ASSIGN_OR_RETURN(const TensorType type, ParseNpyHeader(text));
  const int64_t data_bytes = file.size() - prefix.data_start();
  if (data_bytes != type.num_bytes()) {
    return Invalid(type.ToString(), " wants ", type.num_bytes(),
                   " bytes of data, got ", data_bytes);
  }
  MICA_ASSIGN_OR_RETURN(Tensor tensor,
                        ReadTensorAt(file, prefix.data_start(), type));
  if (type.is_row_major()) return tensor;
  return Tensor::CopyOf(tensor.view());
}

std::string HeaderBytes(absl::string_view descr, const Dims& dims) {
  std::string text = absl::StrCat(
      "{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
      absl::StrJoin(dims, ", "), dims.size() == 1 ? ",), }" : "), }");
  const int64_t unpadded =
      kPrefixBytesV1 + static_cast<int64_t>(text.size()) + 1;
  const int64_t padded = (unpadded + kAlignment - 1) / kAlignment * kAlignment;
  text.append(padded - unpadded, ' ');
  text.push_back('\n');
  const uint16_t length = static_cast<uint16_t>(text.size());
  std::string bytes(kMagic);
  bytes.append("\x01\x00", 2);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return bytes + text;
}

}  // namespace

absl::StatusOr<TensorType> ParseNpyHeader(absl::string_view text) {
  Scanner scanner(text);
  HeaderFields fields;
  MICA_RETURN_IF_ERROR(scanner.Want("{"));
  while (!scanner.Take("}")) {
    MICA_RETURN_IF_ERROR(ParseField(scanner, fields));
    if (scanner.Take(",")) continue;
    MICA_RETURN_IF_ERROR(scanner.Want("}"));
    break;
  }
  if (!scanner.at_end()) return Invalid("header: text after its end");
  if (!fields.descr || !fields.fortran_order || !fields.shape) {
    return Invalid("header: wants descr, fortran_order and shape");
  }
  TensorType type{.dims = *std::move(fields.shape)};
  MICA_ASSIGN_OR_RETURN(type.dtype, DTypeFromDescr(*fields.descr));
  if (!HasLegalSize(type)) {
    return Invalid("shape (", absl::StrJoin(type.dims, ","), ") is too large");
  }
  if (*fields.fortran_order && type.num_elements() > 0) {
    type.strides = ColumnMajorStrides(type.dims);
  }
  return type;
}

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  MICA_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  auto tensor = ReadOpenedNpy(file);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

absl::Status WriteNpy(const std::string& path, const TensorView& tensor) {
  const TensorType& type = tensor.type;
  if (type.is_scalar || !type.is_static() || !HasLegalSize(type)) {
    return Invalid(path, ": wants a tensor of static size, got ",
                   type.ToString());
  }
  const auto* known = std::find_if(
      std::begin(kDescrWords), std::end(kDescrWords),
      [&](const DescrWord& word) { return word.dtype == type.dtype; });
  if (known == std::end(kDescrWords)) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": npy has no ", DTypeName(type.dtype)));
  }
  Tensor copy;
  const char* data = tensor.as<const char>();
  if (!type.is_row_major()) {
    MICA_ASSIGN_OR_RETURN(copy, Tensor::CopyOf(tensor));
    data = static_cast<const char*>(copy.data());
  }
  const std::string header = HeaderBytes(known->word, type.dims);
  return WriteFile(path, {header, absl::string_view(data, type.num_bytes())});
}

}  // namespace mica
