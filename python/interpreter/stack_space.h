// How much of a thread's stack is left.

#ifndef MICA_PYTHON_INTERPRETER_STACK_SPACE_H_
#define MICA_PYTHON_INTERPRETER_STACK_SPACE_H_

namespace mica {

// True if three quarters of this thread's stack are in use. Python bounds how
// deep its functions call each other; those that it runs itself take no stack,
// but each of a watched call takes twenty kilobytes. What begins when this is
// true should leave the call to Python.
bool IsStackLow();

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_STACK_SPACE_H_
