#include "kernels/cpu/code_store.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/fingerprint.h"
#include "framework/base/status.h"

namespace mica::cpu {
namespace {

// What a file begins with. The text and the image follow.
struct Header {
  char magic[16] = {'m', 'i', 'c', 'a', ' ', 'c', 'o', 'd', 'e', ' ', '1'};
  uint64_t checksum[2] = {};  // Of all that follows.
  int64_t text_bytes = 0, image_bytes = 0, entry = 0;
};

absl::string_view Behind(absl::string_view file) {
  return file.substr(offsetof(Header, text_bytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CodeStore>> CodeStore::Open(std::string folder,
                                                           int64_t max_bytes) {
  MICA_ASSIGN_OR_RETURN(
      auto files, FileStore::Open(std::move(folder), {.what = "code cache",
                                                      .suffix = ".code",
                                                      .max_bytes = max_bytes}));
  return std::unique_ptr<CodeStore>(new CodeStore(std::move(files)));
}

absl::StatusOr<CodeImage> CodeStore::Read(absl::string_view text) const {
  const Fingerprint key = FingerprintOf(text);
  MICA_ASSIGN_OR_RETURN(const std::string file, files_->Read(key));
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("code cache: ", files_->folder(),
                                            "/", key.ToHex(), ".code ", what));
  };
  Header header;
  const Header wanted;
  if (file.size() < sizeof(header)) return damaged("is cut off");
  std::memcpy(&header, file.data(), sizeof(header));
  const Fingerprint sum = FingerprintOf(Behind(file));
  const int64_t rest = static_cast<int64_t>(file.size() - sizeof(header));
  if (std::memcmp(header.magic, wanted.magic, sizeof(header.magic)) != 0 ||
      header.checksum[0] != sum.high || header.checksum[1] != sum.low ||
      header.text_bytes < 0 || header.text_bytes > rest ||
      header.image_bytes != rest - header.text_bytes) {
    return damaged("is damaged");
  }
  const absl::string_view behind =
      absl::string_view(file).substr(sizeof(header));
  if (behind.substr(0, header.text_bytes) != text) {
    return damaged("is another region's");
  }
  return CodeImage{.bytes = std::string(behind.substr(header.text_bytes)),
                   .entry = header.entry};
}

absl::Status CodeStore::Write(absl::string_view text,
                              const CodeImage& image) const {
  Header header;
  header.text_bytes = static_cast<int64_t>(text.size());
  header.image_bytes = static_cast<int64_t>(image.bytes.size());
  header.entry = image.entry;
  const auto as_bytes = [&] {
    return absl::string_view(reinterpret_cast<const char*>(&header),
                             sizeof(header));
  };
  std::string file = absl::StrCat(as_bytes(), text, image.bytes);
  const Fingerprint sum = FingerprintOf(Behind(file));
  header.checksum[0] = sum.high;
  header.checksum[1] = sum.low;
  file.replace(0, sizeof(header), as_bytes().data(), sizeof(header));
  return files_->Write(FingerprintOf(text), file);
}

}  // namespace mica::cpu
