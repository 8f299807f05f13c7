#include "python/torch_side/tensors/torch_generators.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DeviceType.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace mica {
namespace {

// ---- Numbers. ----

struct Numbered {
  at::Generator generator;
  bool is_made = false;  // By a program, at each run.
};

std::mutex& TableMutex() {
  static std::mutex mutex;
  return mutex;
}
std::vector<Numbered>& Table() {
  static auto& table = *new std::vector<Numbered>{
      {.generator = at::detail::getDefaultCPUGenerator()}};
  return table;
}
// Those that programs make, of this thread.
absl::flat_hash_map<int64_t, at::Generator>& MadeHere() {
  thread_local absl::flat_hash_map<int64_t, at::Generator> made;
  return made;
}

int64_t Enter(const at::Generator& generator, bool is_made) {
  const std::lock_guard<std::mutex> lock(TableMutex());
  std::vector<Numbered>& table = Table();
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].generator == generator) return static_cast<int64_t>(i);
  }
  table.push_back({.generator = generator, .is_made = is_made});
  return static_cast<int64_t>(table.size()) - 1;
}

// ---- Operators. ----

at::Tensor ReadState(int64_t number) {
  at::Generator generator = GeneratorOf(number);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void WriteState(int64_t number, const at::Tensor& state) {
  at::Generator generator = GeneratorOf(number);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state.contiguous());
}

void SetSeed(int64_t number, const at::Scalar& seed) {
  at::Generator generator = GeneratorOf(number);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(seed.toLong()));
}

at::Tensor ReadSeed(int64_t number) {
  at::Generator generator = GeneratorOf(number);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return at::scalar_tensor(static_cast<int64_t>(generator.current_seed()),
                           at::kLong);
}

void SeedAnew(int64_t number) {
  SetSeed(number, static_cast<int64_t>(c10::default_rng_seed_val));
}

// ---- Functions for Python. ----

// Calls an operator by way of the dispatcher.
template <typename Signature, typename... Args>
auto CallOp(const char* name, Args... args) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<Signature>()
      .call(args...);
}

void CallSeed(int64_t number, int64_t seed) {
  CallOp<void(int64_t, const at::Scalar&), int64_t, const at::Scalar&>(
      "mica_random::seed", number, at::Scalar(seed));
}

// The generator that a method is of, with what else it got; null, with a Python
// error set, if it is none.
PyObject* TakeGenerator(PyObject* self, PyObject* const** args,
                        Py_ssize_t* count) {
  if (self == nullptr && *count > 0) {
    self = (*args)[0];
    ++*args;
    --*count;
  }
  if (self != nullptr && IsTorchGenerator(self)) return self;
  PyErr_SetString(PyExc_TypeError, "wants a torch.Generator");
  return nullptr;
}

int64_t NumberOf(PyObject* generator) {
  return NumberOfGenerator(reinterpret_cast<THPGenerator*>(generator)->cdata)
      .value_or(kDefaultGenerator);
}

// As torch converts it: what doesn't fit an int64 may fit an uint64.
bool SeedOf(PyObject* object, int64_t* seed) {
  int overflow = 0;
  *seed = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow > 0) {
    *seed = static_cast<int64_t>(PyLong_AsUnsignedLongLong(object));
  }
  return PyErr_Occurred() == nullptr;
}

PyObject* GetStateCall(PyObject* self, PyObject* const* args,
                       Py_ssize_t count) {
  HANDLE_TH_ERRORS
  PyObject* generator = TakeGenerator(self, &args, &count);
  if (generator == nullptr) return nullptr;
  return THPVariable_Wrap(
      CallOp<at::Tensor(int64_t)>("mica_random::state", NumberOf(generator)));
  END_HANDLE_TH_ERRORS
}

PyObject* SetStateCall(PyObject* self, PyObject* const* args,
                       Py_ssize_t count) {
  HANDLE_TH_ERRORS
  PyObject* generator = TakeGenerator(self, &args, &count);
  if (generator == nullptr) return nullptr;
  const at::Tensor& state = THPVariable_Unpack(args[0]);
  CallOp<void(int64_t, const at::Tensor&), int64_t, const at::Tensor&>(
      "mica_random::set_state", NumberOf(generator), state);
  Py_INCREF(generator);
  return generator;
  END_HANDLE_TH_ERRORS
}

PyObject* SeedCall(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  PyObject* generator = TakeGenerator(self, &args, &count);
  int64_t seed = 0;
  if (generator == nullptr || !SeedOf(args[0], &seed)) return nullptr;
  CallSeed(NumberOf(generator), seed);
  Py_INCREF(generator);
  return generator;
  END_HANDLE_TH_ERRORS
}

PyObject* InitialSeedCall(PyObject* self, PyObject* const* args,
                          Py_ssize_t count) {
  HANDLE_TH_ERRORS
  PyObject* generator = TakeGenerator(self, &args, &count);
  if (generator == nullptr) return nullptr;
  const int64_t seed = CallOp<at::Tensor(int64_t)>("mica_random::initial_seed",
                                                   NumberOf(generator))
                           .item()
                           .toLong();
  return PyLong_FromUnsignedLongLong(static_cast<uint64_t>(seed));
  END_HANDLE_TH_ERRORS
}

PyObject* ManualSeedCall(PyObject* /*self*/, PyObject* const* args,
                         Py_ssize_t /*count*/) {
  HANDLE_TH_ERRORS
  int64_t seed = 0;
  if (!SeedOf(args[0], &seed)) return nullptr;
  CallSeed(kDefaultGenerator, seed);
  return THPGenerator_Wrap(at::detail::getDefaultCPUGenerator());
  END_HANDLE_TH_ERRORS
}

PyObject* MakeCall(PyObject* /*self*/, PyObject* const* /*args*/,
                   Py_ssize_t /*count*/, PyObject* /*keyword_names*/) {
  HANDLE_TH_ERRORS
  PyRef made = PyRef::Steal(PyObject_CallNoArgs(THPGeneratorClass));
  if (!made) return nullptr;
  const at::Generator& generator =
      reinterpret_cast<THPGenerator*>(made.get())->cdata;
  const int64_t number = Enter(generator, /*is_made=*/true);
  MadeHere()[number] = generator;
  CallOp<void(int64_t)>("mica_random::make", number);
  return made.release();
  END_HANDLE_TH_ERRORS
}

struct NamedCall {
  absl::string_view name;
  PyMethodDef def;
};

template <typename F>
PyMethodDef Def(const char* name, F function, int keywords = 0) {
  return {name,
          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL | keywords, nullptr};
}

}  // namespace

std::optional<int64_t> NumberOfGenerator(const at::Generator& generator) {
  if (!generator.defined()) return kDefaultGenerator;
  if (generator.device().type() != c10::DeviceType::CPU) return std::nullopt;
  return Enter(generator, /*is_made=*/false);
}

at::Generator GeneratorOf(int64_t number) {
  const std::lock_guard<std::mutex> lock(TableMutex());
  const Numbered& known = Table().at(static_cast<size_t>(number));
  if (!known.is_made) return known.generator;
  at::Generator& own = MadeHere()[number];
  if (!own.defined()) own = at::detail::createCPUGenerator();
  return own;
}

TorchGeneratorStates::TorchGeneratorStates(absl::Span<const int64_t> numbers) {
  for (const int64_t number : numbers) {
    const at::Tensor state = ReadState(number);
    states_.emplace_back(
        number, std::string(static_cast<const char*>(state.const_data_ptr()),
                            state.nbytes()));
  }
}

void TorchGeneratorStates::Restore() const {
  for (const auto& [number, state] : states_) {
    const at::Tensor bytes =
        at::empty({static_cast<int64_t>(state.size())}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr(), state.data(), state.size());
    WriteState(number, bytes);
  }
}

bool IsTorchGenerator(PyObject* object) {
  return IsTorchGeneratorType(Py_TYPE(object)) &&
         reinterpret_cast<THPGenerator*>(object)->cdata.device().type() ==
             c10::DeviceType::CPU;
}

bool IsTorchGeneratorType(PyTypeObject* type) {
  return reinterpret_cast<PyObject*>(type) == THPGeneratorClass;
}

bool MayHaveDevices() {
  return at::hasCUDA() || at::hasMPS() || at::hasXPU() || at::hasMTIA() ||
         at::hasHIP() || c10::is_privateuse1_backend_registered();
}

void InstallGeneratorOps() {
  static auto* library = [] {
    auto* made = new torch::Library(torch::Library::FRAGMENT, "mica_random",
                                    std::nullopt, __FILE__, __LINE__);
    const std::vector<at::Tag> tags = {at::Tag::nondeterministic_seeded};
    for (const char* schema : {"state(int generator) -> Tensor",
                               "set_state(int generator, Tensor state) -> ()",
                               "seed(int generator, Scalar seed) -> ()",
                               "initial_seed(int generator) -> Tensor",
                               "make(int generator) -> ()"}) {
      made->def(torch::schema(schema), tags);
    }
    const auto add = [made](const char* name, auto* kernel) {
      made->impl(
          name,
          torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
    };
    add("state", &ReadState);
    add("set_state", &WriteState);
    add("seed", &SetSeed);
    add("initial_seed", &ReadSeed);
    add("make", &SeedAnew);
    return made;
  }();
  static_cast<void>(library);
}

PyRef GeneratorCall(absl::string_view name, PyObject* self) {
  static NamedCall known[] = {
      {"get_state", Def("get_state", &GetStateCall)},
      {"set_state", Def("set_state", &SetStateCall)},
      {"manual_seed", Def("manual_seed", &SeedCall)},
      {"initial_seed", Def("initial_seed", &InitialSeedCall)},
      {"torch.manual_seed", Def("manual_seed", &ManualSeedCall)},
      {"Generator", Def("Generator", &MakeCall, METH_KEYWORDS)}};
  for (NamedCall& one : known) {
    if (one.name == name) {
      return PyRef::Steal(PyCFunction_New(&one.def, self));
    }
  }
  return PyRef();
}

}  // namespace mica
