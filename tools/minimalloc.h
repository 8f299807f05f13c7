// Memory allocation problems as CSV, in the form that MiniMalloc's challenge
// problems have (github.com/google/minimalloc), packed by our planner.

#ifndef MICA_TOOLS_MINIMALLOC_H_
#define MICA_TOOLS_MINIMALLOC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/memory/lifetime.h"

namespace mica {

struct MinimallocOptions {
  std::string path;
  // Of the memory; 0: as little as can be found.
  int64_t capacity = 0;
  // How long to search, in buffers looked at: half a minute or so.
  int64_t max_search = 2'000'000'000;
};

struct MinimallocResult {
  int64_t lifetimes = 0;
  int64_t capacity_needed = 0;
  int64_t live_set = 0;
  double seconds = 0;  // Of planning, without reading.
};

// A header names the columns, in any order: id, lower, upper and size, of which
// size is in bytes and upper is not included; hint and offset may be there and
// are not read. InvalidArgument, with the line, for anything else.
absl::StatusOr<std::vector<Lifetime>> ParseMinimalloc(absl::string_view csv);

// Plans for an alignment of one byte, and checks what was planned.
// InvalidArgument for options out of range or a file that isn't such a problem.
absl::StatusOr<MinimallocResult> RunMinimalloc(
    const MinimallocOptions& options);

}  // namespace mica

#endif  // MICA_TOOLS_MINIMALLOC_H_
