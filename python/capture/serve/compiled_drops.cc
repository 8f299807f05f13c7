// Which records a compiled callable drops, and when.

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/serve/compiled.h"

namespace mica {
namespace {

// Records that differ in sizes only that are expected to vary.
constexpr int kMaxSizes = 64;

}  // namespace

void Compiled::NoteDrops(const std::string& why, int64_t count) {
  if (count == 0) return;
  dropped_ += count;
  Counted& counted = drops_[why];
  counted.text = why;
  counted.count += count;
  if (options_.log_recompiles) {
    const std::string what =
        count == 1 ? "the record" : absl::StrCat(count, " records");
    Log(absl::StrCat("mica drops ", what, " of ", title(), ": ", why));
  }
}

bool Compiled::KeepBound() {
  std::map<std::string, int> sizes;
  int num_families = 0;
  std::vector<std::shared_ptr<Record>> kept;
  std::string first;
  bool is_further_size = false;
  for (size_t i = 0; i < records_.size(); ++i) {
    std::string gone;
    const std::string family = records_[i]->IsGone(&gone)
                                   ? ""
                                   : records_[i]->inputs().Family(dynamic_);
    if (i == 0) first = family;
    is_further_size |= i > 0 && !family.empty() && family == first;
    const bool is_new = family.empty() || sizes[family] == 0;
    if (is_new ? num_families == options_.max_records
               : sizes[family] == kMaxSizes) {
      continue;
    }
    num_families += is_new ? 1 : 0;
    if (!family.empty()) ++sizes[family];
    kept.push_back(records_[i]);
  }
  NoteDrops(absl::StrCat("hit least recently, and ", options_.max_records,
                         " are the bound"),
            static_cast<int64_t>(records_.size() - kept.size()));
  std::swap(records_, kept);
  return is_further_size;
}

PyTypeObject* Compiled::DropGone(const CallArgs& args, Miss* miss) {
  num_over_ = HeldObjects::num_over();
  if (attempt_.guards.any_gone()) attempt_.guards = StateGuards();
  PyTypeObject* misplaced = nullptr;
  const auto is_gone = [&](Record& record, std::string* path) {
    if (!record.IsGone(path)) return false;
    if (misplaced == nullptr) misplaced = record.FindMisplaced(args);
    return true;
  };
  DropRecords(is_gone, miss);
  return misplaced;
}

bool Compiled::DropUnused() {
  DropRecords(
      [](Record& record, std::string* path) { return record.IsGone(path); },
      nullptr);
  const ReferenceCounts own = CountOwn();
  DropRecords(
      [&own](Record& record, std::string* path) {
        return record.IsOrphaned(own, path);
      },
      nullptr);
  const ReferenceCounts left = CountOwn();
  const auto is_used = [&left](PyObject* holder) {
    const auto it = left.find(holder);
    return it == left.end() || Py_REFCNT(holder) > it->second;
  };
  return options_.capture.slots.Keep(is_used);
}

void Compiled::DropRecords(
    absl::FunctionRef<bool(Record&, std::string*)> is_gone, Miss* miss) {
  // What they let go of may run code that calls this one.
  std::vector<std::shared_ptr<Record>> gone, left;
  for (size_t i = 0; i < records_.size(); ++i) {
    std::string path;
    if (!is_gone(*records_[i], &path)) {
      left.push_back(records_[i]);
      continue;
    }
    gone.push_back(records_[i]);
    NoteDrops(absl::StrCat("its object ", path, " is gone"), 1);
    if (i == 0 && miss != nullptr) *miss = Miss::OfGone(std::move(path));
  }
  std::swap(records_, left);
}

ReferenceCounts Compiled::CountOwn() const {
  ReferenceCounts counts;
  const auto add = [](PyObject* object, void* to) {
    ++(*static_cast<ReferenceCounts*>(to))[object];
    return 0;
  };
  Traverse(add, &counts);
  return counts;
}

}  // namespace mica
