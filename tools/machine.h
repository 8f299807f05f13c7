// Where a figure comes from.

#ifndef MICA_TOOLS_MACHINE_H_
#define MICA_TOOLS_MACHINE_H_

#include <cstdint>
#include <string>

namespace mica {

// The CPU's model name; "unknown" where the system doesn't tell.
std::string MachineName();

// The commit that is checked out in the tree that holds the running binary;
// "unknown" outside a git tree.
std::string CommitName();

// The most memory that the process has had, in bytes; since
// ForgetPeakMemory(), if that was called.
int64_t PeakMemoryBytes();

// Returns what the process has now, without what it has freed where the system
// takes that back. 0, and nothing is forgotten, where the system can't.
int64_t ForgetPeakMemory();

}  // namespace mica

#endif  // MICA_TOOLS_MACHINE_H_
