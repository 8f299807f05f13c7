// Files of the tree that tests compare text with.

#ifndef MICA_TESTS_GOLDEN_GOLDEN_H_
#define MICA_TESTS_GOLDEN_GOLDEN_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mica {

// Paths, relative to the tree's root, of the files below `folder` that end in
// `suffix`, sorted. Tests run in the root.
std::vector<std::string> FindFiles(absl::string_view folder,
                                   absl::string_view suffix);

// Set by --update_golden: rewrite the files instead of comparing with them.
extern bool update_golden;

// Expects that the file at `path` holds `text`, or writes it.
void ExpectGolden(const std::string& path, absl::string_view text);

}  // namespace mica

#endif  // MICA_TESTS_GOLDEN_GOLDEN_H_
