#include "kernels/cpu/identity.h"

#include <elf.h>
#include <link.h>
#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// The build id among a loaded object's notes, in hexadecimal digits.
std::string BuildIdIn(const char* notes, size_t bytes) {
  size_t at = 0;
  const auto align = [](size_t size) { return (size + 3) / 4 * 4; };
  while (at + sizeof(ElfW(Nhdr)) <= bytes) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(notes + at);
    const size_t name = at + sizeof *note;
    const size_t id = name + align(note->n_namesz);
    const size_t end = id + align(note->n_descsz);
    if (end > bytes) break;
    if (note->n_type == NT_GNU_BUILD_ID &&
        absl::string_view(notes + name, note->n_namesz) ==
            absl::string_view("GNU", 4)) {
      return absl::BytesToHexString({notes + id, note->n_descsz});
    }
    at = end;
  }
  return "";
}

struct BuildIdSearch {
  uintptr_t address = 0;  // Of something in the object that is wanted.
  std::string id;
};

int LookInto(dl_phdr_info* object, size_t, void* data) {
  auto* search = static_cast<BuildIdSearch*>(data);
  bool is_wanted = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    is_wanted =
        is_wanted || (part.p_type == PT_LOAD && search->address >= begin &&
                      search->address < begin + part.p_memsz);
  }
  if (!is_wanted) return 0;
  for (int i = 0; i < object->dlpi_phnum && search->id.empty(); ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    search->id = BuildIdIn(
        reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr),
        part.p_memsz);
  }
  return 1;
}

std::string FindBuildId() {
  BuildIdSearch search{.address = reinterpret_cast<uintptr_t>(&FindBuildId)};
  dl_iterate_phdr(&LookInto, &search);
  return search.id;
}

#if defined(__x86_64__)

// The registers that the operating system saves, as XGETBV tells.
uint64_t SavedRegisters() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

void DescribeInstructions(std::string* text) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  // EBX of leaf 1 names the core at hand and is left out.
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    absl::StrAppend(text, " ", absl::Hex(a), ",", absl::Hex(c), ",",
                    absl::Hex(d));
    constexpr uint32_t kOsSavesRegisters = 1u << 27;
    if (c & kOsSavesRegisters) {
      absl::StrAppend(text, " ", absl::Hex(SavedRegisters()));
    }
  }
  for (const uint32_t part : {0u, 1u}) {
    if (!__get_cpuid_count(7, part, &a, &b, &c, &d)) continue;
    // The bit that differs between cores of a hybrid machine.
    constexpr uint32_t kIsHybrid = 1u << 15;
    absl::StrAppend(text, " ", absl::Hex(part == 0 ? 0 : a), ",", absl::Hex(b),
                    ",", absl::Hex(c), ",",
                    absl::Hex(part == 0 ? d & ~kIsHybrid : d));
  }
}

#else

// What the kernel tells of the processor's instructions.
void DescribeInstructions(std::string* text) {
  absl::StrAppend(text, " ", absl::Hex(getauxval(AT_HWCAP)), ",",
                  absl::Hex(getauxval(AT_HWCAP2)));
}

#endif

std::string DescribeCpu() {
  std::string text(Simd().name);
  absl::StrAppend(&text, " ", DnnlInstructions());
  DescribeInstructions(&text);
  return text;
}

}  // namespace

const std::string& CodeIdentity() {
  static const std::string& identity = *[] {
    const std::string id = FindBuildId();
    return new std::string(
        id.empty() ? "" : absl::StrCat("mica ", id, " ", DnnlVersion()));
  }();
  return identity;
}

const std::string& CpuIdentity() {
  static const std::string& identity = *new std::string(DescribeCpu());
  return identity;
}

}  // namespace mica::cpu
