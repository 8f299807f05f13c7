#include "framework/tensor/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "framework/tensor/tensor_file.h"
#include "nlohmann/json.hpp"

namespace mica {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "files hold little-endian numbers, which are copied as they are");

constexpr char kMetadataKey[] = "__metadata__";
constexpr int64_t kLengthBytes = 8;
// Root, tensor, shape: nothing in a header is nested deeper.
constexpr int kMaxDepth = 3;

struct DTypeWord {
  const char* word;
  DType dtype;
};
constexpr DTypeWord kDTypeWords[] = {
    {"BOOL", DType::kBool}, {"U8", DType::kU8},     {"I8", DType::kI8},
    {"I16", DType::kI16},   {"I32", DType::kI32},   {"I64", DType::kI64},
    {"F16", DType::kF16},   {"BF16", DType::kBF16}, {"F32", DType::kF32},
    {"F64", DType::kF64},   {"C64", DType::kC64},   {"C128", DType::kC128},
};

absl::StatusOr<DType> DTypeFromWord(absl::string_view word) {
  for (const DTypeWord& known : kDTypeWords) {
    if (word == known.word) return known.dtype;
  }
  for (absl::string_view other : {"U16", "U32", "U64", "F8_E4M3", "F8_E5M2"}) {
    if (word == other) {
      return absl::UnimplementedError(absl::StrCat("dtype ", word));
    }
  }
  return Invalid("unknown dtype '", word, "'");
}

absl::string_view WordOf(DType dtype) {
  for (const DTypeWord& known : kDTypeWords) {
    if (known.dtype == dtype) return known.word;
  }
  return "";
}

// Parses `text`, and refuses what the JSON library lets pass: keys that occur
// twice (it keeps the last) and deep nesting.
absl::StatusOr<Json> ParseJson(absl::string_view text) {
  std::vector<absl::flat_hash_set<std::string>> keys(kMaxDepth + 1);
  std::optional<std::string> problem;
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (problem.has_value()) return false;
    if (depth > kMaxDepth) {
      problem = "nested too deep";
    } else if (event == Json::parse_event_t::object_start) {
      keys[depth].clear();
    } else if (event == Json::parse_event_t::key) {
      // A key's depth is that of its object's members.
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys[depth - 1].insert(key).second) {
        problem = absl::StrCat("key '", key, "' occurs twice");
      }
    }
    return !problem.has_value();
  };
  Json json = Json::parse(text.begin(), text.end(), watch,
                          /*allow_exceptions=*/false);
  if (problem.has_value()) return Invalid(*problem);
  if (json.is_discarded()) return Invalid("not a JSON text");
  if (!json.is_object()) return Invalid("wants a JSON object");
  return json;
}

// Reads a list of non-negative integers below 2^63.
absl::StatusOr<Dims> ParseNaturals(const Json& json, absl::string_view field) {
  if (!json.is_array()) return Invalid(field, ": wants a list");
  Dims numbers;
  for (const Json& item : json) {
    if (!item.is_number_unsigned() ||
        item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return Invalid(field, ": wants non-negative integers, got ",
                     item.dump(-1, ' ', true, Json::error_handler_t::replace));
    }
    numbers.push_back(static_cast<int64_t>(item.get<uint64_t>()));
  }
  return numbers;
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name,
                                            const Json& json,
                                            int64_t data_bytes) {
  if (!json.is_object()) return Invalid("wants an object");
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!json.contains(field)) return Invalid("lacks '", field, "'");
  }
  if (json.size() != 3) return Invalid("has unknown fields");
  if (!json["dtype"].is_string()) return Invalid("dtype: wants a string");

  SafetensorsEntry entry{.name = name};
  MICA_ASSIGN_OR_RETURN(
      entry.type.dtype,
      DTypeFromWord(json["dtype"].get_ref<const std::string&>()));
  MICA_ASSIGN_OR_RETURN(entry.type.dims, ParseNaturals(json["shape"], "shape"));
  if (!HasLegalSize(entry.type)) {
    return Invalid("shape: [", absl::StrJoin(entry.type.dims, ","),
                   "] is too large");
  }
  MICA_ASSIGN_OR_RETURN(const Dims offsets,
                        ParseNaturals(json["data_offsets"], "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      offsets[1] > data_bytes) {
    return Invalid("data_offsets: wants [begin,end] within ", data_bytes,
                   " bytes, got [", absl::StrJoin(offsets, ","), "]");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.end - entry.begin != entry.type.num_bytes()) {
    return Invalid("data_offsets: ", entry.type.ToString(), " wants ",
                   entry.type.num_bytes(), " bytes, got ",
                   entry.end - entry.begin);
  }
  return entry;
}

absl::Status ParseMetadata(const Json& json,
                           std::map<std::string, std::string>& metadata) {
  if (!json.is_object()) return Invalid(kMetadataKey, ": wants an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return Invalid(kMetadataKey, ": '", key, "' wants a string");
    }
    metadata[key] = value.get_ref<const std::string&>();
  }
  return absl::OkStatus();
}

// Sorts the entries by place and checks that they fill the bytes exactly.
absl::Status OrderEntries(std::vector<SafetensorsEntry>& entries,
                          int64_t data_bytes) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin, a.end) <
                            std::pair(b.begin, b.end);
                   });
  int64_t position = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != position) {
      return Invalid("tensor '", entry.name, "': begins at byte ", entry.begin,
                     " where ", position,
                     " is next: tensors must not overlap or leave gaps");
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    return Invalid("tensors fill ", position, " of ", data_bytes, " bytes");
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> ReadOpenedSafetensors(const InputFile& file,
                                                   FileMemory memory) {
  uint64_t length = 0;
  MICA_RETURN_IF_ERROR(file.ReadAt(0, &length, kLengthBytes));
  const int64_t rest = file.size() - kLengthBytes;
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes) ||
      length > static_cast<uint64_t>(rest)) {
    return Invalid("header of ", length, " bytes: wants at most ",
                   std::min(rest, kMaxSafetensorsHeaderBytes));
  }
  const int64_t header_bytes = static_cast<int64_t>(length);
  std::string text(header_bytes, '\0');
  MICA_RETURN_IF_ERROR(file.ReadAt(kLengthBytes, text.data(), header_bytes));
  MICA_ASSIGN_OR_RETURN(SafetensorsHeader header,
                        ParseSafetensorsHeader(text, rest - header_bytes));

  NamedTensors contents{.metadata = std::move(header.metadata)};
  std::shared_ptr<void> mapped;
  if (memory == FileMemory::kMapped) {
    MICA_ASSIGN_OR_RETURN(mapped, file.Map());
  }
  for (SafetensorsEntry& entry : header.entries) {
    auto tensor = MapTensorAt(
        file, mapped, kLengthBytes + header_bytes + entry.begin, entry.type);
    if (!tensor.ok()) {
      return Annotate(tensor.status(),
                      absl::StrCat("tensor '", entry.name, "'"));
    }
    contents.tensors.push_back({std::move(entry.name), *std::move(tensor)});
  }
  return contents;
}

bool IsUtf8(const std::string& text) {
  // Dumping replaces what isn't UTF-8, so that it doesn't come back.
  const std::string dumped =
      Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json back = Json::parse(dumped, nullptr, /*allow_exceptions=*/false);
  return back.is_string() && back.get_ref<const std::string&>() == text;
}

absl::Status CheckWritable(absl::Span<const NamedTensor> tensors,
                           const std::map<std::string, std::string>& metadata) {
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadataKey || !IsUtf8(name) || !names.insert(name).second) {
      return Invalid("tensor '", name,
                     "': wants a UTF-8 name that is used once");
    }
    if (tensor.type().is_scalar || !tensor.type().is_static() ||
        !HasLegalSize(tensor.type())) {
      return Invalid("tensor '", name, "': wants a tensor of static size, got ",
                     tensor.type().ToString());
    }
  }
  for (const auto& [key, value] : metadata) {
    if (!IsUtf8(key) || !IsUtf8(value)) {
      return Invalid("metadata '", key, "': wants UTF-8");
    }
  }
  return absl::OkStatus();
}

// The header with its length, padded with blanks so that data starts aligned.
std::string HeaderBytes(absl::Span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  int64_t position = 0;
  for (const auto& [name, tensor] : tensors) {
    const TensorType& type = tensor.type();
    Json& entry = json[name];
    entry["dtype"] = std::string(WordOf(type.dtype));
    entry["shape"] = Json::array();
    for (Dim dim : type.dims) entry["shape"].push_back(dim);
    entry["data_offsets"] = {position, position + type.num_bytes()};
    position += type.num_bytes();
  }
  std::string text = json.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes,
              ' ');
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         int64_t data_bytes) {
  MICA_ASSIGN_OR_RETURN(const Json root, ParseJson(json));
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name == kMetadataKey) {
      MICA_RETURN_IF_ERROR(ParseMetadata(value, header.metadata));
      continue;
    }
    auto entry = ParseEntry(name, value, data_bytes);
    if (!entry.ok()) {
      return Annotate(entry.status(), absl::StrCat("tensor '", name, "'"));
    }
    header.entries.push_back(*std::move(entry));
  }
  MICA_RETURN_IF_ERROR(OrderEntries(header.entries, data_bytes));
  return header;
}

absl::StatusOr<NamedTensors> ReadSafetensors(const std::string& path,
                                             FileMemory memory) {
  MICA_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  auto contents = ReadOpenedSafetensors(file, memory);
  if (!contents.ok()) return Annotate(contents.status(), path);
  return contents;
}

absl::Status WriteSafetensors(
    const std::string& path, absl::Span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata) {
  MICA_RETURN_IF_ERROR(CheckWritable(tensors, metadata));
  std::vector<NamedTensor> dense(tensors.begin(), tensors.end());
  for (NamedTensor& named : dense) {
    if (named.tensor.type().is_row_major()) continue;
    MICA_ASSIGN_OR_RETURN(named.tensor, Tensor::CopyOf(named.tensor.view()));
  }
  // Widest elements first: then all tensors are aligned without padding.
  std::stable_sort(dense.begin(), dense.end(),
                   [](const NamedTensor& a, const NamedTensor& b) {
                     return ElementBytes(a.tensor.type().dtype) >
                            ElementBytes(b.tensor.type().dtype);
                   });
  const std::string header = HeaderBytes(dense, metadata);
  if (static_cast<int64_t>(header.size()) > kMaxSafetensorsHeaderBytes) {
    return Invalid(path, ": header of ", header.size(), " bytes is too long");
  }
  std::vector<absl::string_view> chunks = {header};
  for (const NamedTensor& named : dense) {
    chunks.emplace_back(static_cast<const char*>(named.tensor.data()),
                        named.tensor.type().num_bytes());
  }
  return WriteFile(path, chunks);
}

}  // namespace mica
