// Ctrl-C as a question, so that a main ends in its own way.

#ifndef MICA_TOOLS_SIGNALS_H_
#define MICA_TOOLS_SIGNALS_H_

#include <csignal>

namespace mica {

// The first SIGINT or SIGTERM asks to stop: what this returns is its number,
// 0 until then. A second one ends the process. For a main, which has one
// process to itself.
const volatile std::sig_atomic_t& CatchSignals();

}  // namespace mica

#endif  // MICA_TOOLS_SIGNALS_H_
