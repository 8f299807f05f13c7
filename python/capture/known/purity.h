// Which C functions a captured program may call: the one table of them. What
// isn't listed is never assumed to be pure.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_PURITY_H_
#define MICA_PYTHON_CAPTURE_KNOWN_PURITY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

enum class CallKind {
  kUnknown,   // Ends the capture.
  kPure,      // Depends on its arguments and what they hold; or changes them,
              // which shows when they are compared after the run.
  kOperator,  // As kPure, by the dispatcher: it sees the numbers passed.
  kNumberFunction,  // math.sqrt and its like: mica.scalar_* of that name.
  kMoves,           // Gives items as they are, counts them, or puts them
                    // somewhere: looks at its arguments, not into them.
  kTypes,           // Looks at its arguments' classes only.
  kRegistry,        // As kTypes; also asks what abstract classes were told.
  kReadsState,      // Reads what TorchState has, or what never changes.
  kAsksAgain,       // Reads other state: asked again before each hit.
  kSetsState,       // Sets what either has.
  kReadsModes,      // Reads torch's stack of function modes.
  kDeviceBlock,     // Enters or leaves `with torch.device(...)`.
  kGetAttr,         // getattr, hasattr, object.__getattribute__.
  kSetAttr,         // setattr, delattr, object.__setattr__.
  kUseItem,         // dict.get and its like: one item of a dict.
  kContext,         // Methods of ContextVar: one value of the running context.
  kIdentity,        // id(): an address.
  kReduce,          // object.__reduce_ex__: what copies of it are made of.
  kText,            // repr, str, format.
  kVars,            // vars(x): x.__dict__.
  kSeeds,           // Makes a generator, from a seed that has to be there.
  kGenerator,       // Reads, sets or seeds a generator of torch's.
  kLock,            // A lock's method that takes it or gives it back.
  kDraw,            // Draws from the generator it is a method of, or seeds it.
  kAsk,             // Gives a number of the world outside, and changes nothing.
  kClock,           // As kAsk; the time, or how much of it has passed.
  kNew,             // tp_new of a type: as calling the type.
  kMakesTensor,     // As kPure; fills a new tensor with Python's values.
  kReadsOffset,     // As kPure; where a tensor lies in its storage.
  kRecurrent,       // As kPure, but for packed sequences, whose sizes it reads.
  kSplit,           // As kPure, but for sections given as a tensor.
  kBackward,        // Autograd's engine runs a graph.
  kRequiresGrad,    // Tensor.requires_grad_.
  kDetaches,        // Tensor.detach_.
  kRetainsGrad,     // Tensor.retain_grad.
  kReadsData,       // A tensor's data leaves unseen: tolist, numpy.
  kPrint,           // print: done again at each hit.
  kWarn,            // warnings.warn: likewise.
  kNewFilters,      // Tells the warnings module that its filters changed.
  kLog,             // A method of logging.Logger: likewise, from that line.
  kHost,            // A user's call into the world outside: again at each hit.
  kEndsGraph,       // Refused, for the annotation's own reason.
};

enum class FunctionKind {
  kPlain,  // Nothing: the run shows what it does.
  // Only keeps torch's own books, of objects that hits don't make:
  // torch.compile's note of each new module's age, a hook's number.
  kBookkeeping,
  // Sets up another of torch's at that one's first call in a process, and isn't
  // called again.
  kSetsUpAnother,
};

// What is known of a callable without looking into it: our own table's entries
// and the user's (mica.annotate) are of this one kind.
struct CallAnnotation {
  CallKind kind = CallKind::kUnknown;
  // Positional arguments, the bound object first: tensors of whose values the
  // call's outcome depends unseen by the dispatcher,
  std::vector<int> read;
  // and objects that it changes in place, likewise.
  std::vector<int> changed;
  std::string reason;  // kEndsGraph: for the user.
};

// Fills the table from the modules at hand. False with a Python error set.
bool InitPurity();

// Of a builtin function, method descriptor, slot wrapper or method-wrapper, or
// of whatever Annotate() was given. Null for what is not known. The user's word
// counts where both have one.
const CallAnnotation* FindAnnotation(PyObject* callable);
// Before a watched run: adds functions of libraries that are there by now.
void NoteImports();
// Its kind, kUnknown for none.
CallKind KindOfBuiltin(PyObject* callable);
// Adds to the table, of a Python function, a function or method in C, a type or
// a callable object. The table keeps no Python function alive: whoever
// annotates one calls DropAnnotation() before it dies. False with a Python
// error set for what has no identity of its own: bound methods.
bool Annotate(PyObject* callable, CallAnnotation annotation);
void DropAnnotation(const void* callable);
// "a.b.c" imported as far as it is a module, then by attributes. Null, with no
// error set, for what this interpreter or torch doesn't have.
PyRef ResolveName(absl::string_view path);
// A call's arguments without what `callable` is bound to, if that is the first
// of them.
absl::Span<PyObject* const> OwnArguments(PyObject* callable,
                                         absl::Span<PyObject* const> args);
// Whether a method of a random generator, of this name, is none that a record
// repeats.
bool IsOtherGeneratorMethod(absl::string_view name);
// Whether objects of a C type are made without effect, from the arguments.
bool IsPureType(PyTypeObject* type);
// Those whose objects hold or give, one by one, the items of the arguments as
// they are: list, zip.
bool IsMovingType(PyTypeObject* type);
// torch.empty, Tensor.new_empty and their like.
bool IsAllocation(PyObject* callable);
// Of an operator: whether its kernel may be in Python, which gets numbers as
// objects of its own.
bool MayCallKernelInPython(PyObject* callable);
// torch.Tensor, torch.FloatTensor and their like.
bool IsTensorConstructor(PyTypeObject* type);
// Whether objects of a C type never change (re.Pattern, a dtype).
bool IsImmutableType(PyTypeObject* type);
// Whether the operators of a C type depend on nothing but the operands.
bool HasPureOperators(PyTypeObject* type);
// decimal.Decimal and its like: what their operators give depends on the state
// of the thread.
bool IsContextualType(PyTypeObject* type);
// What is known of a Python function.
FunctionKind KindOfFunction(PyObject* function);
// Whether an object of a C type is a function of its own that has no effect
// (numpy.ufunc).
bool IsPureCallableType(PyTypeObject* type);
// What numbers the classes of torch.autograd.Function as they are made: a hit
// makes none, and who numbers them anew has other numbers as well.
bool IsClassCounter(PyObject* object);
// operator.attrgetter.
bool IsAttributeGetterType(PyTypeObject* type);
// torch.utils.hooks.RemovableHandle, whose `next_id` counts hooks.
PyTypeObject* HookHandleType();
// Whether an attribute of a class is a count of torch's own, which it notes of
// new objects and nobody goes by: of hooks, or of how often torch.compile
// began.
bool IsLibraryCounter(PyTypeObject* type, PyObject* name);
// torch.jit.ScriptFunction.
bool IsScriptFunctionType(PyTypeObject* type);
// Whether nodes of this kind in TorchScript ("aten::mul", "prim::If") do what
// the dispatcher sees, or compute with Python's plain values.
bool IsPureScriptNode(absl::string_view kind);
// Whether reading a tensor's attribute of this name is covered by guards on
// its metadata, or seen by the dispatcher.
bool IsSafeTensorAttribute(const std::string& name, bool requires_grad);

// "builtins.print", "torch.Tensor.tolist": for messages.
std::string CallableName(PyObject* callable);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_PURITY_H_
