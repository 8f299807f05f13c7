#include "tools/signals.h"

namespace mica {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

extern "C" void RequestStop(int signal) { stop_signal = signal; }

}  // namespace

const volatile std::sig_atomic_t& CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = &RequestStop;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM}) {
    ::sigaction(signal, &action, nullptr);
  }
  return stop_signal;
}

}  // namespace mica
