#include "kernels/llvm/plugin.h"

#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "kernels/llvm/compile.h"
#include "kernels/region/signature.h"
#include "kernels/region/version.h"
#include "llvm/Config/llvm-config.h"

// The process may end while a thread compiles: what LLVM keeps in variables is
// never destroyed. The library isn't unloaded before.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(
    void (*)(void*), void*, void*) {
  return 0;
}

namespace mica::region::ir {
namespace {

std::optional<Level> LevelOf(absl::string_view name) {
  if (name == "v1") return Level::kV1;
  if (name == "v3") return Level::kV3;
  if (name == "v4") return Level::kV4;
  return std::nullopt;
}

absl::StatusOr<Image> CompileText(absl::string_view text,
                                  absl::string_view level_name) {
  const std::optional<Level> level = LevelOf(level_name);
  if (!level.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("level: wants v1, v3 or v4, got ", level_name));
  }
  MICA_ASSIGN_OR_RETURN(const Signature signature, ParseSignature(text));
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return Compile(signature, *level);
}

}  // namespace
}  // namespace mica::region::ir

#define MICA_EXPORT extern "C" __attribute__((visibility("default")))

MICA_EXPORT const char* mica_llvm_version() {
  return mica::region::EmitterVersion();
}

MICA_EXPORT const char* mica_llvm_name() { return "LLVM " LLVM_VERSION_STRING; }

MICA_EXPORT int mica_llvm_compile(const char* text, size_t text_bytes,
                                  const char* level, void* context,
                                  void (*take)(void*, const char*, size_t,
                                               int64_t)) {
  const auto image =
      mica::region::ir::CompileText(absl::string_view(text, text_bytes), level);
  if (!image.ok()) {
    const std::string message(image.status().message());
    take(context, message.data(), message.size(), 0);
    return 1;
  }
  take(context, image->bytes.data(), image->bytes.size(), image->entry);
  return 0;
}
