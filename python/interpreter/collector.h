// The cyclic garbage collector while an AgeMark keeps it from beginning.

#ifndef MICA_PYTHON_INTERPRETER_COLLECTOR_H_
#define MICA_PYTHON_INTERPRETER_COLLECTOR_H_

namespace mica {

// Puts back the thresholds that the first of the marks that are left found: the
// program is about to ask for them, or to set them. From then on the collector
// may begin, which each mark finds out.
void GiveThresholdsBack();

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_COLLECTOR_H_
