#ifndef MICA_PYTHON_INTERPRETER_OPCODES_SINCE_312_H_
#define MICA_PYTHON_INTERPRETER_OPCODES_SINCE_312_H_

#include "python/interpreter/instructions.h"

namespace mica {

// Meaning of what differs between 3.12 and later versions.
Instruction DecodeNewest(int opcode, int arg);

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_OPCODES_SINCE_312_H_
