// Memory whose bytes lie in a file, for who seldom reads them.
//
// The pages of a range are replaced, where they are, by a private mapping of a
// file that holds the same bytes. Whoever reads them, by whatever address, has
// the system fetch them back; whoever writes them gets pages of their own, as
// they were before. So nobody has to know, and nothing has to be hooked: the
// system is what keeps track. The file has no name and lives as long as its
// mappings. What it needs is a disk: a folder in memory is refused, and a disk
// that fails ends the process when such a page is read (SIGBUS).

#ifndef MICA_FRAMEWORK_BASE_OFFLOAD_H_
#define MICA_FRAMEWORK_BASE_OFFLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mica {

struct MemoryRange {
  char* data = nullptr;
  int64_t bytes = 0;

  char* end() const { return data + bytes; }
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

// The whole pages of `range` that hold no byte of `kept`, which is in order.
std::vector<MemoryRange> WholePages(MemoryRange range,
                                    absl::Span<const MemoryRange> kept);

// OK if files in `folder` are on a disk. FailedPrecondition if they are in
// memory, NotFound, or Internal with what the system says.
absl::Status CheckOffloadFolder(const std::string& folder);

// Moves the bytes of `pages`, as WholePages() gives them, to a file in
// `folder`. On an error all of them are as they were: ResourceExhausted if the
// disk is full, else as CheckOffloadFolder().
//
// Requires: private memory of the process that stays allocated, and is given to
// DiscardOffloadedPages() before it is freed; nobody writes it meanwhile, which
// would be lost.
absl::Status OffloadPages(absl::Span<const MemoryRange> pages,
                          const std::string& folder);

// Has the system drop those pages that are as they are in the file: after
// somebody has read them. A hint.
void DropPages(absl::Span<const MemoryRange> pages);

// Makes them plain memory again, with undefined contents. False if the system
// refuses: then nothing else may get that memory.
bool DiscardOffloadedPages(absl::Span<const MemoryRange> pages);

// Gives back to the system what malloc keeps of memory that was freed.
void ReturnFreeMemory();

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_OFFLOAD_H_
