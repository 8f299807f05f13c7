#include "tools/minimalloc.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/memory/arena.h"
#include "framework/base/file.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr std::array<absl::string_view, 4> kWanted = {"id", "lower", "upper",
                                                      "size"};
constexpr std::array<absl::string_view, 2> kIgnored = {"hint", "offset"};
constexpr int64_t kMaxStep = std::numeric_limits<int32_t>::max();
// Of all buffers together, so that no sum of sizes overflows.
constexpr int64_t kMaxBytes = int64_t{1} << 60;

std::vector<absl::string_view> Fields(absl::string_view line) {
  std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  for (absl::string_view& field : fields) {
    field = absl::StripAsciiWhitespace(field);
  }
  return fields;
}

// Where each of kWanted stands.
absl::StatusOr<std::array<size_t, kWanted.size()>> FindColumns(
    const std::vector<absl::string_view>& header) {
  std::array<size_t, kWanted.size()> columns;
  for (size_t i = 0; i < kWanted.size(); ++i) {
    if (std::count(header.begin(), header.end(), kWanted[i]) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("line 1: wants one column '", kWanted[i], "', got '",
                       absl::StrJoin(header, ","), "'"));
    }
    columns[i] =
        std::find(header.begin(), header.end(), kWanted[i]) - header.begin();
  }
  for (absl::string_view name : header) {
    const bool is_known =
        std::count(kWanted.begin(), kWanted.end(), name) > 0 ||
        std::count(kIgnored.begin(), kIgnored.end(), name) > 0;
    if (is_known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("line 1: column '", name, "' isn't supported"));
  }
  return columns;
}

absl::StatusOr<int64_t> ParseNumber(absl::string_view name,
                                    absl::string_view text, int64_t min,
                                    int64_t max) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= min && value <= max) {
    return value;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": wants a number from ", min, " to ", max, ", got '", text, "'"));
}

absl::StatusOr<Lifetime> ParseLifetime(
    const std::vector<absl::string_view>& fields,
    const std::array<size_t, kWanted.size()>& columns) {
  MICA_ASSIGN_OR_RETURN(
      const int64_t lower,
      ParseNumber("lower", fields[columns[1]], 0, kMaxStep - 1));
  MICA_ASSIGN_OR_RETURN(
      const int64_t upper,
      ParseNumber("upper", fields[columns[2]], lower + 1, kMaxStep));
  MICA_ASSIGN_OR_RETURN(const int64_t size,
                        ParseNumber("size", fields[columns[3]], 0, kMaxBytes));
  return Lifetime{.first = static_cast<int32_t>(lower),
                  .last = static_cast<int32_t>(upper - 1),
                  .bytes = size};
}

}  // namespace

absl::StatusOr<std::vector<Lifetime>> ParseMinimalloc(absl::string_view csv) {
  std::vector<Lifetime> lifetimes;
  absl::flat_hash_set<absl::string_view> ids;
  std::optional<std::array<size_t, kWanted.size()>> columns;
  size_t num_columns = 0;
  int64_t bytes = 0;
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(csv, '\n')) {
    ++line_number;
    const std::vector<absl::string_view> fields = Fields(line);
    if (!columns.has_value()) {
      MICA_ASSIGN_OR_RETURN(columns, FindColumns(fields));
      num_columns = fields.size();
      continue;
    }
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const auto error = [&](auto... text) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line_number, ": ", text...));
    };
    if (fields.size() != num_columns) {
      return error("wants ", num_columns, " fields, got ", fields.size());
    }
    const absl::string_view id = fields[(*columns)[0]];
    if (id.empty()) return error("wants an id");
    if (!ids.insert(id).second) return error("id '", id, "' was there before");
    const absl::StatusOr<Lifetime> lifetime = ParseLifetime(fields, *columns);
    if (!lifetime.ok()) return error(lifetime.status().message());
    bytes += lifetime->bytes;
    if (bytes > kMaxBytes) return error("more than ", kMaxBytes, " bytes");
    lifetimes.push_back(*lifetime);
  }
  return lifetimes;
}

absl::StatusOr<MinimallocResult> RunMinimalloc(
    const MinimallocOptions& options) {
  if (options.capacity < 0 || options.capacity > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--capacity: wants 0 to ", kMaxBytes, ", got ", options.capacity));
  }
  MICA_ASSIGN_OR_RETURN(const std::string csv, ReadFile(options.path));
  const absl::StatusOr<std::vector<Lifetime>> lifetimes = ParseMinimalloc(csv);
  if (!lifetimes.ok()) return Annotate(lifetimes.status(), options.path);
  const absl::Time start = absl::Now();
  const ArenaPlan plan = PlanArena(
      *lifetimes, {.alignment = 1,
                   .enough_bytes = std::max<int64_t>(options.capacity, 1),
                   .max_search = options.max_search});
  const absl::Duration time = absl::Now() - start;
  MICA_RETURN_IF_ERROR(CheckOffsets(*lifetimes, plan.offsets, plan.arena_bytes,
                                    /*alignment=*/1));
  return MinimallocResult{.lifetimes = static_cast<int64_t>(lifetimes->size()),
                          .capacity_needed = plan.arena_bytes,
                          .live_set = plan.live_set_bytes,
                          .seconds = absl::ToDoubleSeconds(time)};
}

}  // namespace mica
