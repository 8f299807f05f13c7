#include "kernels/llvm/image.h"

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"

namespace mica::region::ir {
namespace {

using Object = llvm::object::ELF64LEObjectFile;
using llvm::object::ELFSectionRef;
using llvm::object::SectionRef;

template <class T>
absl::StatusOr<T> OrStatus(llvm::Expected<T> x) {
  if (x) return std::move(*x);
  return absl::InternalError(
      absl::StrCat("object: ", llvm::toString(x.takeError())));
}

class Flattener {
 public:
  explicit Flattener(const Object& object) : object_(object) {}

  absl::StatusOr<Image> Run(absl::string_view entry,
                            const std::vector<uint64_t>& loops) {
    for (const bool is_code : {true, false}) {
      for (const SectionRef& section : object_.sections()) {
        if (section.isText() == is_code) MICA_RETURN_IF_ERROR(Add(section));
      }
    }
    AddTable(loops);
    for (const SectionRef& section : object_.sections()) {
      MICA_RETURN_IF_ERROR(Resolve(section));
    }
    for (const llvm::object::SymbolRef& symbol : object_.symbols()) {
      MICA_ASSIGN_OR_RETURN(const llvm::StringRef name,
                            OrStatus(symbol.getName()));
      if (absl::string_view(name.data(), name.size()) != entry) continue;
      MICA_ASSIGN_OR_RETURN(image_.entry, OffsetOf(symbol));
      return std::move(image_);
    }
    return absl::InternalError(absl::StrCat("object: has no ", entry));
  }

 private:
  absl::Status Add(const SectionRef& section) {
    const ELFSectionRef elf(section);
    if ((elf.getFlags() & llvm::ELF::SHF_ALLOC) == 0 ||
        section.getSize() == 0) {
      return absl::OkStatus();
    }
    if ((elf.getFlags() & llvm::ELF::SHF_WRITE) != 0) {
      MICA_ASSIGN_OR_RETURN(const llvm::StringRef name,
                            OrStatus(section.getName()));
      return absl::InternalError(
          absl::StrCat("object: has variables, in ", name.str()));
    }
    const size_t align = section.getAlignment().value();
    image_.bytes.resize((image_.bytes.size() + align - 1) / align * align);
    offsets_[section.getIndex()] = static_cast<int64_t>(image_.bytes.size());
    MICA_ASSIGN_OR_RETURN(const llvm::StringRef bytes,
                          OrStatus(section.getContents()));
    image_.bytes.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  void AddTable(const std::vector<uint64_t>& loops) {
    const auto append = [&](uint64_t word) {
      image_.bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
    };
    image_.bytes.resize((image_.bytes.size() + 7) / 8 * 8);
    table_ = static_cast<int64_t>(image_.bytes.size());
    for (const uint64_t loop : loops) append(loop);
    append(loops.size());
  }

  absl::StatusOr<int64_t> OffsetOf(
      const llvm::object::SymbolRef& symbol) const {
    MICA_ASSIGN_OR_RETURN(const auto section, OrStatus(symbol.getSection()));
    const auto it = section == object_.section_end()
                        ? offsets_.end()
                        : offsets_.find(section->getIndex());
    if (it == offsets_.end()) {
      MICA_ASSIGN_OR_RETURN(const llvm::StringRef name,
                            OrStatus(symbol.getName()));
      if (name == kLoopTable) return table_;
      return absl::InternalError(
          absl::StrCat("object: wants ", name.str(), " from elsewhere"));
    }
    MICA_ASSIGN_OR_RETURN(const uint64_t value, OrStatus(symbol.getValue()));
    return it->second + static_cast<int64_t>(value);
  }

  // The references in what section `relocations` is about.
  absl::Status Resolve(const SectionRef& relocations) {
    MICA_ASSIGN_OR_RETURN(const auto target,
                          OrStatus(relocations.getRelocatedSection()));
    if (target == object_.section_end()) return absl::OkStatus();
    const auto base = offsets_.find(target->getIndex());
    if (base == offsets_.end()) return absl::OkStatus();
    for (const llvm::object::RelocationRef& relocation :
         relocations.relocations()) {
      const uint64_t type = relocation.getType();
      if (type != llvm::ELF::R_X86_64_PC32 &&
          type != llvm::ELF::R_X86_64_PLT32) {
        return absl::InternalError(
            absl::StrCat("object: has a reference of type ", type));
      }
      MICA_ASSIGN_OR_RETURN(const int64_t to,
                            OffsetOf(*relocation.getSymbol()));
      MICA_ASSIGN_OR_RETURN(
          const int64_t addend,
          OrStatus(llvm::object::ELFRelocationRef(relocation).getAddend()));
      const int64_t at =
          base->second + static_cast<int64_t>(relocation.getOffset());
      const auto distance = static_cast<int32_t>(to + addend - at);
      if (at < 0 || at + 4 > static_cast<int64_t>(image_.bytes.size())) {
        return absl::InternalError("object: a reference lies outside");
      }
      std::memcpy(&image_.bytes[at], &distance, sizeof(distance));
    }
    return absl::OkStatus();
  }

  const Object& object_;
  Image image_;
  std::map<uint64_t, int64_t> offsets_;  // Of sections, by their number.
  int64_t table_ = 0;                    // The loops' offset.
};

}  // namespace

absl::StatusOr<Image> Flatten(absl::string_view object, absl::string_view entry,
                              const std::vector<uint64_t>& loops) {
  MICA_ASSIGN_OR_RETURN(
      const Object file,
      OrStatus(Object::create(llvm::MemoryBufferRef(
          llvm::StringRef(object.data(), object.size()), "region"))));
  return Flattener(file).Run(entry, loops);
}

}  // namespace mica::region::ir
