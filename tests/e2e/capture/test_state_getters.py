"""What a program asks of torch's and Python's state is guarded, or refused.

The first test walks all that torch has: no list of its own says what there is.
"""

from __future__ import annotations

import contextvars
import decimal
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as forward
from e2e.capture.agreement_of_calls import report, same

import mica

GETTER = re.compile(r"^(is_|get_|_is_|_get_|are_|_are_)|_enabled$")
PLACES = re.compile(
    r"torch(\._C(\._functorch|\._autograd)?|\.autograd|\.amp|\.utils|\.cpu"
    r"|\.compiler|\.overrides|\.backends|\.utils\._python_dispatch)?$"
    r"|torch\.(backends|autograd|amp)\.\w+$"
)
# They make threads, files or text of megabytes, or take long.
LEFT_OUT = {
    "torch.utils.get_cpp_backtrace",
    "torch.get_rng_state",
    "torch.overrides.get_testing_overrides",
    "torch.overrides.get_overridable_functions",
    "torch.overrides._get_overridable_functions",
    "torch.overrides._get_tensor_methods",
    "torch.overrides.get_ignored_functions",
    "torch.overrides.get_default_nowrap_functions",
    "torch._C._get_operator_version_map",
    "torch._C._get_upgraders_entry_map",
    # It fixes what others count by.
    "torch._C._get_max_operator_version",
}


def getters() -> dict[str, Callable[[], Any]]:
    found: dict[int, tuple[str, Callable[[], Any]]] = {}
    for place, module in sorted(sys.modules.items()):
        if module is None or not PLACES.match(place):
            continue
        for name in dir(module):
            full = f"{place}.{name}"
            getter = getattr(module, name, None)
            if not GETTER.search(name) or full in LEFT_OUT:
                continue
            if not callable(getter) or isinstance(getter, type):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getter()
            except Exception:
                continue  # It wants arguments, or a device.
            found.setdefault(id(getter), (full, getter))
    return dict(found.values())


GETTERS = getters()


def setter_of(name: str) -> Callable[[Any], Any] | None:
    """Returns what sets the state that a getter of this name gives."""
    place, _, word = name.rpartition(".")
    stem = re.sub(r"^_?(is|get|are)_|^_", "", word)
    bare = re.sub(r"_enabled$", "", stem)
    for module in (sys.modules[place], torch._C, torch):
        for start in ("set_", "_set_", "_jit_set_", "enable_"):
            for end in (stem, bare, bare + "_enabled"):
                setter = getattr(module, start + end, None)
                if setter is not None:
                    return setter
    return None


def other_values(value: Any) -> list[Any]:
    """Returns what else a setter may take."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, torch.dtype):
        return [torch.float64 if value != torch.float64 else torch.float32]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if value == "highest":
        return ["medium"]
    if value == "warn":
        return ["nothing"]
    return []


def number(value: Any) -> float:
    """Returns a number that differs where the answers do."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, (tuple, list)):
        return float(sum((i + 1) * number(v) for i, v in enumerate(value)))
    if isinstance(value, torch.dtype):
        return float(value.itemsize) + 100 * ("bfloat" in str(value))
    if isinstance(value, str):
        return float(sum(map(ord, value)))
    return 0.0 if value is None else 1.0


# Getters whose state nothing of that name sets, or sets in a program's own
# process only at its start; each is refused, or never changes.
WITHOUT_SETTER = {
    "torch._C._get_tracing_state": "set by tracing, which nothing captures",
}


@pytest.mark.once("it changes torch's own flags and puts them back")
@pytest.mark.parametrize("name", sorted(GETTERS))
def test_each_getter_of_torch_is_refused_or_guarded(name):
    getter = GETTERS[name]

    def f(x):
        return x * number(getter())

    fast = mica.compile(f)
    x = torch.ones(2, dtype=torch.float64)
    for _ in range(3):
        same(fast(x), f(x))
    if report(fast).hits == 0:
        return  # Refused.
    setter = setter_of(name)
    if setter is None:
        return
    before = getter()
    for value in other_values(before):
        try:
            setter(value)
        except Exception:
            continue
        try:
            changed = number(getter()) != number(before)
            for _ in range(2):
                same(fast(x), f(x))
        finally:
            setter(before)
        assert changed, (name, value)
        for _ in range(2):
            same(fast(x), f(x))


def test_the_walk_finds_what_it_is_about():
    assert len(GETTERS) > 120
    flipped = [n for n in GETTERS if setter_of(n) is not None]
    assert len(flipped) >= 25, flipped


def flip(set_: Callable[[Any], Any], on: Any, off: Any) -> Any:
    return lambda: set_(on), lambda: set_(off)


FLAGS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "anomaly": (
        lambda x: x * (2.0 if torch.is_anomaly_enabled() else 3.0),
        *flip(torch.autograd.set_detect_anomaly, True, False),
    ),
    "anomaly, unasked": (
        lambda x: x * 2,
        *flip(torch.autograd.set_detect_anomaly, True, False),
    ),
    "cuda's autocast dtype": (
        lambda x: x.to(torch.get_autocast_dtype("cuda")),
        lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
        lambda: torch.set_autocast_dtype("cuda", torch.float16),
    ),
    "cuda's autocast": (
        lambda x: x * (2.0 if torch.is_autocast_enabled("cuda") else 3.0),
        lambda: torch.set_autocast_enabled("cuda", True),
        lambda: torch.set_autocast_enabled("cuda", False),
    ),
    "cuda's autocast without a name": (
        lambda x: x * (2.0 if torch.is_autocast_enabled() else 3.0),
        lambda: torch.set_autocast_enabled("cuda", True),
        lambda: torch.set_autocast_enabled("cuda", False),
    ),
    "any autocast": (
        lambda x: x * (2.0 if torch._C._is_any_autocast_enabled() else 3.0),
        lambda: torch.set_autocast_enabled("xpu", True),
        lambda: torch.set_autocast_enabled("xpu", False),
    ),
    "the cpu's autocast dtype": (
        lambda x: x.to(torch.get_autocast_dtype("cpu")),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
    ),
    "autocast's cache": (
        lambda x: x * (2.0 if torch.is_autocast_cache_enabled() else 3.0),
        *flip(torch.set_autocast_cache_enabled, False, True),
    ),
    "warn always": (
        lambda x: x * (2.0 if torch.is_warn_always_enabled() else 3.0),
        *flip(torch.set_warn_always, True, False),
    ),
    "forward grad": (
        lambda x: x * (2.0 if torch._C._is_fwd_grad_enabled() else 3.0),
        *flip(torch._C._set_fwd_grad_enabled, False, True),
    ),
    "default dtype": (
        lambda x: x + torch.tensor(1.5),
        *flip(torch.set_default_dtype, torch.float64, torch.float32),
    ),
    "denormals": (
        lambda x: x * 1e-30,
        *flip(torch.set_flush_denormal, True, False),
    ),
    "determinism": (
        lambda x: x * (1 + torch.are_deterministic_algorithms_enabled()),
        *flip(torch.use_deterministic_algorithms, True, False),
    ),
    "filled memory": (
        lambda x: (
            x * (1 + torch._C._get_deterministic_fill_uninitialized_memory())
        ),
        *flip(
            torch._C._set_deterministic_fill_uninitialized_memory, False, True
        ),
    ),
    "matmul precision": (
        lambda x: x * len(torch.get_float32_matmul_precision()),
        *flip(torch.set_float32_matmul_precision, "medium", "highest"),
    ),
    "mkldnn": (
        lambda x: x * (1 + torch._C._get_mkldnn_enabled()),
        *flip(torch._C._set_mkldnn_enabled, False, True),
    ),
    "nnpack": (
        lambda x: x * (1 + torch._C._get_nnpack_enabled()),
        *flip(torch._C._set_nnpack_enabled, False, True),
    ),
    "math attention": (
        lambda x: x * (1 + torch.backends.cuda.math_sdp_enabled()),
        *flip(torch.backends.cuda.enable_math_sdp, False, True),
    ),
    "the recursion limit": (
        lambda x: x * sys.getrecursionlimit(),
        *flip(sys.setrecursionlimit, 1234, sys.getrecursionlimit()),
    ),
    "the encoder's fast path": (
        lambda x: x * (1 + torch.backends.mha.get_fastpath_enabled()),
        *flip(torch.backends.mha.set_fastpath_enabled, False, True),
    ),
    "numpy's errors": (
        lambda x: x * float(np.float32(2) / np.float32(3)),
        lambda: np.seterr(all="raise"),
        lambda: np.seterr(
            divide="warn", over="warn", under="ignore", invalid="warn"
        ),
    ),
}


@pytest.mark.once("it changes torch's own flags and puts them back")
@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_changes_between_calls_is_seen(flag):
    f, change, undo = FLAGS[flag]
    fast = mica.compile(f)
    x = torch.full((2,), 1e-10)
    for _ in range(3):
        same(fast(x), f(x))
    assert report(fast).hits == 2, str(report(fast))
    change()
    try:
        for _ in range(3):
            same(fast(x), f(x))
    finally:
        undo()
    hits = report(fast).hits
    for _ in range(2):
        same(fast(x), f(x))
    # numpy's settings are a new object each time that they are set.
    assert report(fast).hits >= hits + 1


@pytest.mark.once("it changes torch's own flags and puts them back")
def test_a_default_device_is_seen():
    def f(x):
        return torch.ones(2) * len(torch.get_default_device().type)

    fast = mica.compile(f)
    x = torch.ones(2)
    for _ in range(3):
        same(fast(x), f(x))
    torch.set_default_device("meta")
    try:
        assert fast(x).device == f(x).device == torch.device("meta")
    finally:
        torch.set_default_device(None)
    same(fast(x), f(x))


def test_flushed_denormals_are_what_eager_makes_of_them():
    def f(x):
        return x * 1e-30

    fast = mica.compile(f)
    x = torch.full((64,), 1e-10)
    assert fast(x)[0] == fast(x)[0] != 0
    hits = mica.explain(fast).hits
    torch.set_flush_denormal(True)
    try:
        for _ in range(4):
            assert f(x)[0] == fast(x)[0] == 0
        assert mica.explain(fast).hits == hits + 3
    finally:
        torch.set_flush_denormal(False)
    assert f(x)[0] == fast(x)[0] != 0


def test_a_saved_tensor_hook_sees_what_a_compiled_call_saves():
    def f(x):
        return torch.sin(x * 2)

    fast = mica.compile(f)
    x = torch.ones(2, requires_grad=True)
    with torch.enable_grad():
        for _ in range(3):
            fast(x)
        seen = []
        for fn in (f, fast):
            packed = []
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t, p=packed: p.append(1) or t, lambda t: t
            ):
                fn(x)
            seen.append(len(packed))
    assert seen[0] == seen[1] > 0


THREADS = {
    "name": lambda x: (
        x * (2.0 if threading.current_thread().name == "MainThread" else 3.0)
    ),
    "main": lambda x: (
        x
        * (
            2.0
            if threading.current_thread() is threading.main_thread()
            else 3.0
        )
    ),
    "ident": lambda x: x * float(threading.get_ident() % 1000),
    "native": lambda x: x * float(threading.get_native_id() % 1000),
    "daemon": lambda x: x * (1 + threading.current_thread().daemon),
    "local": lambda x: x * LOCAL.__dict__.get("gain", 3.0),
    "local attribute": lambda x: x * getattr(LOCAL, "gain", 3.0),
}
LOCAL = threading.local()


@pytest.mark.parametrize("program", THREADS)
def test_another_thread_calls(program):
    f = THREADS[program]
    fast = mica.compile(f)
    wrong: list[Any] = []
    x = torch.ones(2)

    def compare(gain=None):
        if gain is not None:
            LOCAL.gain = gain
        with torch.no_grad():
            for _ in range(3):
                if not torch.equal(f(x), fast(x)):
                    wrong.append(gain)

    compare()
    for gain in (5.0, 7.0):
        other = threading.Thread(target=compare, args=(gain,), daemon=True)
        other.start()
        other.join()
    compare()
    assert wrong == []


EXCEPTIONS = {
    "exc_info": lambda x: x * (2.0 if sys.exc_info()[0] is None else 3.0),
    "exception": lambda x: x * (2.0 if sys.exception() is None else 3.0),
    "its class": lambda x: (
        x * (2.0 if sys.exc_info()[0] is ValueError else 3.0)
    ),
    "its text": lambda x: x * len(str(sys.exc_info()[1])),
}


@pytest.mark.parametrize("program", EXCEPTIONS)
def test_an_exception_is_being_handled(program):
    f = EXCEPTIONS[program]
    fast = mica.compile(f)
    x = torch.ones(2)
    for _ in range(3):
        same(fast(x), f(x))
    assert report(fast).hits == 2
    for error in (ValueError("abc"), ValueError("abcdef"), KeyError(1)):
        try:
            raise error
        except Exception:
            for _ in range(2):
                same(fast(x), f(x))
    same(fast(x), f(x))
    assert report(fast).hits >= 3


def test_the_exception_that_a_program_handles_itself_is_its_own():
    def f(x):
        try:
            raise ValueError("inner")
        except ValueError:
            kind = sys.exc_info()[0]
        return x * (2.0 if kind is ValueError else 3.0)

    fast = mica.compile(f)
    x = torch.ones(2)
    for _ in range(3):
        same(fast(x), f(x))
    try:
        raise KeyError
    except KeyError:
        same(fast(x), f(x))


VAR: contextvars.ContextVar[float] = contextvars.ContextVar("VAR", default=2.0)
CONTEXTS = {
    "get": lambda x: x * VAR.get(),
    "get with a default": lambda x: x * VAR.get(4.0),
    "len of a copy": lambda x: x * len(contextvars.copy_context()),
    "item of a copy": lambda x: (
        x * (1.0 if VAR not in contextvars.copy_context() else 2.0)
    ),
    "get of a copy": lambda x: x * contextvars.copy_context().get(VAR, 5.0),
    "run in a copy": lambda x: x * contextvars.copy_context().run(VAR.get),
    "list of a copy": lambda x: x * len(list(contextvars.copy_context())),
    "items of a copy": lambda x: (
        x * len(dict(contextvars.copy_context().items()))
    ),
}


@pytest.mark.parametrize("program", CONTEXTS)
def test_a_context_variable_is_set(program):
    f = CONTEXTS[program]
    fast = mica.compile(f)
    x = torch.ones(2)

    def compare():
        for _ in range(3):
            same(fast(x), f(x))

    contextvars.Context().run(compare)
    inner = contextvars.copy_context()
    inner.run(VAR.set, 7.0)
    inner.run(compare)
    compare()


ONE, SEVEN = decimal.Decimal(1), decimal.Decimal(7)
DECIMALS = {
    "divide": lambda x: x * float(ONE / SEVEN),
    "reflected": lambda x: x * float(1 / SEVEN),
    "negate": lambda x: x * float(-(ONE / SEVEN)),
    "round": lambda x: x * float(round(ONE / SEVEN, 1)),
    "sum": lambda x: x * float(sum([ONE, SEVEN, decimal.Decimal("0.12345")])),
    "sqrt": lambda x: x * float(SEVEN.sqrt()),
    "power": lambda x: x * float(SEVEN**-1),
    "quotient": lambda x: x * float(divmod(SEVEN, 3)[1] / 3),
    "plus": lambda x: x * float(+decimal.Decimal("0.123456789")),
    "abs": lambda x: x * float(abs(decimal.Decimal("-0.123456789"))),
    "text": lambda x: x * len(str(SEVEN / 3)),
    "format": lambda x: x * float(f"{decimal.Decimal('0.123456'):.3f}"),
    "context": lambda x: x * decimal.getcontext().prec,
}


@pytest.mark.parametrize("program", DECIMALS)
def test_the_precision_of_decimals_changes(program):
    f = DECIMALS[program]
    fast = mica.compile(f)
    x = torch.ones(2, dtype=torch.float64)
    for precision in (28, 2, 5, 28):
        with decimal.localcontext() as context:
            context.prec = precision
            context.rounding = (
                decimal.ROUND_UP if precision == 5 else decimal.ROUND_HALF_EVEN
            )
            for _ in range(3):
                same(fast(x), f(x))


def test_a_decimal_that_becomes_a_float_is_served():
    fast = mica.compile(lambda x: x * float(SEVEN))
    for _ in range(3):
        same(fast(torch.ones(2)), torch.full((2,), 7.0))
    assert report(fast).hits == 2


DUAL = {
    "argument": lambda w: lambda x: torch.sin(x) * 2,
    "state": lambda w: lambda x: w[0] * x.detach(),
    "made inside": lambda w: (
        lambda x: (
            forward.unpack_dual(
                forward.make_dual(x.detach(), x.detach() * 2) * 3
            ).tangent
        )
    ),
    "module": lambda w: torch.nn.Tanh(),
}


@pytest.mark.parametrize("program", DUAL)
def test_tangents_of_forward_mode_are_eagers(program):
    weights = [torch.full((3,), 2.0)]
    f = DUAL[program](weights)
    fast = mica.compile(f)
    x, t = torch.ones(3), torch.full((3,), 5.0)
    if program != "made inside":
        for _ in range(3):
            same(fast(x), f(x))
        assert report(fast).hits == 2

    def tangent(fn):
        with forward.dual_level():
            weights[0] = forward.make_dual(torch.full((3,), 2.0), t)
            result = fn(forward.make_dual(x, t))
            if program == "made inside":
                return result
            got = forward.unpack_dual(result).tangent
            weights[0] = torch.full((3,), 2.0)
            return got

    for _ in range(3):
        same(tangent(fast), tangent(f))
    if program != "made inside":
        same(fast(x), f(x))
        assert report(fast).hits >= 2


@pytest.mark.once("torch keeps what it tells of the error's place")
@pytest.mark.parametrize("check_nan", [True, False])
def test_anomaly_mode_tells_of_a_whole_training_step(check_nan):
    def world():
        w = torch.zeros(3, requires_grad=True)

        def step(x):
            w.grad = None
            loss = (w.sqrt() * x).sum()
            loss.backward()
            return loss.detach()

        return step

    def outcome(fn, x):
        try:
            return fn(x).item()
        except RuntimeError as error:
            return str(error)[:30]

    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager, fast, x = world(), mica.compile(world()), torch.zeros(3)
        want = [outcome(eager, x) for _ in range(3)]
        got = [outcome(fast, x) for _ in range(3)]
        assert report(fast).hits >= 1
        with torch.autograd.set_detect_anomaly(True, check_nan=check_nan):
            for _ in range(2):
                want.append(outcome(eager, x))
                got.append(outcome(fast, x))
        want.append(outcome(eager, x))
        got.append(outcome(fast, x))
    assert want == got


# As a torch with CUDA has them on a machine without a driver: one gives a
# number, the other raises. Their names are taken up when Mica is imported.
WITHOUT_DRIVER = """
import asyncio, gc, torch
torch._C._cuda_getDeviceCount = gc.get_freeze_count  # Gives 0.
torch._C._cuda_isCurrentStreamCapturing = asyncio.get_running_loop
import mica

def program(x):
    if torch._C._cuda_getDeviceCount() > 0:
        x = x * 2
    try:
        torch._C._cuda_isCurrentStreamCapturing()
    except RuntimeError:
        x = x + 1
    return torch.relu(x)

fast = mica.compile(program)
for number in range(3):
    x = torch.randn(4)
    assert torch.equal(fast(x), program(x))
print(mica.explain(fast).hits)
"""


def test_what_a_torch_with_cuda_is_asked_without_a_driver_is_served():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "2", done.stdout + done.stderr


def test_the_precision_of_one_back_end_is_looked_at() -> None:
    """It stands in a table apart from torch's other settings."""
    compiled = mica.compile(lambda x: x @ x)
    x = torch.randn(4, 4)
    compiled(x)
    compiled(x)
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    try:
        products.fp32_precision = "bf16"
        compiled(x)
        assert mica.explain(compiled).captures == 2
    finally:
        products.fp32_precision = before
    torch.testing.assert_close(compiled(x), x @ x)
    assert mica.explain(compiled).captures == 2
