"""Mica's own ops, which eager has no call for, held to their formulas."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conformance import agreement
from torch.nn import functional

from mica import _mica

TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
}
CHANNEL_ACTIVATIONS = ACTIVATIONS | {
    "relu6": functional.relu6,
    "hardswish": functional.hardswish,
}

# Relative to the largest element or 1, in float64 from the same operands.
ERRORS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2}


def type_of(x: torch.Tensor, dtype: torch.dtype) -> str:
    dims = ",".join(map(str, x.shape))
    name = next(name for name, known in TYPES.items() if known == dtype)
    return f"{name}[{dims}]"


def expect(
    text: str, feeds: list[torch.Tensor], wants: list[torch.Tensor]
) -> None:
    """Both kernels' results are `wants`, which are in float64.

    In `text`, $0, $1, … are the operands, but not between quotation marks.
    """
    parts = text.split('"')
    parts[::2] = [part.replace("$", "%x") for part in parts[::2]]
    call = '"'.join(parts)
    dtype = feeds[0].dtype
    named = {f"x{i}": x for i, x in enumerate(feeds)}
    inputs = [f"%{name}: {type_of(x, dtype)}" for name, x in named.items()]
    types = ", ".join(type_of(want, dtype) for want in wants)
    results = text.rpartition("\n")[2].partition(" = ")[0].strip()
    program = _mica.Program.parse(
        f"program @one({', '.join(inputs)}) {{\n"
        f"  {call} : {types}\n  return {results}\n}}\n"
    )
    for kind, make in agreement.EXECUTORS.items():
        made = make().run(program, named, {}, [])
        for got, want in zip(made, wants, strict=True):
            assert got.dtype == dtype
            assert got.shape == want.shape
            largest = want.abs().max().clamp(min=1)
            error = (got.double() - want).abs().max() / largest
            assert error <= ERRORS[dtype], f"{kind}: {error}\n{text}"


def draw(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.randn(sizes, dtype=torch.float64).to(dtype)


@pytest.fixture(params=TYPES.values(), ids=TYPES)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    torch.manual_seed(0)
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_linear(name: str, dtype: torch.dtype) -> None:
    x, w = draw(dtype, 5, 7), draw(dtype, 3, 7)
    bias, residual = draw(dtype, 3), draw(dtype, 5, 3)
    product = functional.linear(x.double(), w.double(), bias.double())
    expect(
        f'%y = mica.linear($0, $1, $2, $3, "{name}")',
        [x, w, bias, residual],
        [ACTIVATIONS[name](product) + residual.double()],
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_int8_linear(dynamic: bool) -> None:
    torch.manual_seed(0)
    x, w, bias = torch.randn(5, 70), torch.randn(33, 70), torch.randn(33)

    def quantised(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scales = rows.abs().amax(1) / 127
        return (rows / scales[:, None]).round(), scales

    numbers, scales = quantised(w)
    want = x.double()
    if dynamic:
        of_x, x_scales = quantised(x)
        want = of_x.double() * x_scales[:, None].double()
    want = want @ (numbers * scales[:, None]).double().T + bias.double()
    text = (
        "program @one(%x: f32[5,70], %w: f32[33,70], %b: f32[33]) {\n"
        "  %q, %s = mica.quantise_int8(%w) : i8[33,70], f32[33]\n"
        f"  %y = mica.int8_linear(%x, %q, %s, %b, none, "
        f'"none", {str(dynamic).lower()}) : f32[5,33]\n'
        "  return %q, %y\n}\n"
    )
    for make in agreement.EXECUTORS.values():
        q, y = make().run(
            _mica.Program.parse(text), {"x": x, "w": w, "b": bias}, {}, []
        )
        assert torch.equal(q, numbers.to(torch.int8))
        torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("group", "k"), [(32, 96), (64, 70), (8, 35)])
def test_int4_linear(group: int, k: int) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(3, k), torch.randn(33, k)
    n, groups = len(w), math.ceil(k / group)
    parts = [w[:, i : i + group] for i in range(0, k, group)]
    rounded = []
    for part in parts:
        low = part.amin(1, keepdim=True)
        step = (part.amax(1, keepdim=True) - low) / 15
        rounded.append(((part - low) / step).round() * step + low)
    want = x.double() @ torch.cat(rounded, 1).double().T
    text = (
        f"program @one(%x: f32[3,{k}], %w: f32[{n},{k}]) {{\n"
        f"  %q, %s, %o = mica.quantise_int4(%w, {group}) : "
        f"u8[{n},{(k + 1) // 2}], f32[{n},{groups}], f32[{n},{groups}]\n"
        f'  %y = mica.int4_linear(%x, %q, %s, %o, none, none, "none", {group})'
        f" : f32[3,{n}]\n  return %y\n}}\n"
    )
    for make in agreement.EXECUTORS.values():
        (y,) = make().run(_mica.Program.parse(text), {"x": x, "w": w}, {}, [])
        torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", CHANNEL_ACTIVATIONS)
def test_convolution(name: str, dtype: torch.dtype) -> None:
    x, w = draw(dtype, 2, 4, 6, 5), draw(dtype, 6, 2, 3, 3)
    bias, residual = draw(dtype, 6), draw(dtype, 2, 6, 3, 5)
    y = functional.conv2d(
        x.double(), w.double(), bias.double(), (2, 1), 1, 1, 2
    )
    y = y + residual.double()
    expect(
        "%y = mica.convolution($0, $1, $2, [2,1], [1,1], [1,1], false, [0,0],"
        f' 2, $3, "{name}")',
        [x, w, bias, residual],
        [CHANNEL_ACTIVATIONS[name](y)],
    )


@pytest.mark.parametrize("name", CHANNEL_ACTIVATIONS)
def test_scaled_convolution(name: str, dtype: torch.dtype) -> None:
    x, w = draw(dtype, 2, 4, 6, 5), draw(dtype, 6, 4, 3, 3)
    bias, residual = draw(dtype, 6), draw(dtype, 2, 6, 3, 5)
    scale, shift = draw(dtype, 6), draw(dtype, 6)
    y = functional.conv2d(x.double(), w.double(), bias.double(), (2, 1), 1)
    y = y * scale.double()[:, None, None] + shift.double()[:, None, None]
    y = y + residual.double()
    expect(
        "%y = mica.scaled_convolution($0, $1, $2, [2,1], [1,1], [1,1], false,"
        f' [0,0], 1, $3, "{name}", $4, $5)',
        [x, w, bias, residual, scale, shift],
        [CHANNEL_ACTIVATIONS[name](y)],
    )


@pytest.mark.parametrize("name", CHANNEL_ACTIVATIONS)
def test_scale_channels(name: str, dtype: torch.dtype) -> None:
    x, scale, shift = draw(dtype, 2, 3, 4), draw(dtype, 3), draw(dtype, 3)
    y = x.double() * scale.double()[:, None] + shift.double()[:, None]
    expect(
        f'%y = mica.scale_channels($0, $1, $2, "{name}")',
        [x, scale, shift],
        [CHANNEL_ACTIVATIONS[name](y)],
    )


def test_batch_norm_taken_apart(dtype: torch.dtype) -> None:
    w, bias = draw(dtype, 6, 2, 3), draw(dtype, 6)
    gamma, beta, mean = (draw(dtype, 6) for _ in range(3))
    var = draw(dtype, 6).square() + 0.5
    scale = gamma.double() / (var.double() + 1e-3).sqrt()
    shift = beta.double() - mean.double() * scale
    expect(
        "%s, %t = mica.batch_norm_scale($0, $1, $2, $3, 1e-3)",
        [gamma, beta, mean, var],
        [scale, shift],
    )
    expect(
        "%w, %b = mica.fold_batch_norm($0, $1, $2, $3, $4, $5, 1e-3)",
        [w, bias, gamma, beta, mean, var],
        [w.double() * scale[:, None, None], bias.double() * scale + shift],
    )


def test_add_layer_norm(dtype: torch.dtype) -> None:
    a, b = draw(dtype, 5, 8), draw(dtype, 5, 8)
    weight, bias = draw(dtype, 8), draw(dtype, 8)
    total = a.double() + b.double()
    norm = functional.layer_norm(
        total.to(dtype).double(), [8], weight.double(), bias.double(), 1e-5
    )
    expect(
        "%s, %y = mica.add_layer_norm($0, $1, [8], $2, $3, 1e-5)",
        [a, b, weight, bias],
        [total, norm],
    )


def test_elementwise_in_several_steps() -> None:
    a, b, c = (draw(torch.float64, 5, 9) for _ in range(3))
    expect(
        "%y, %z = mica.elementwise([$0, $1, $2], "
        '"mul.f64 %0 %1; add.f64 $0 %2; tanh.f64 $1 -> $2 $0")',
        [a, b, c],
        [torch.tanh(a * b + c), a * b],
    )


@pytest.mark.parametrize("sizes", [(5, 9), (300, 40), (3, 40000), (1, 1)])
def test_reductions_among_elementwise_steps(sizes: tuple[int, int]) -> None:
    a, b = draw(torch.float64, *sizes), draw(torch.float64, sizes[1])
    c = a * b
    for axis in (0, 1):
        mean = c.mean(axis, keepdim=True)
        spread = ((c - mean) ** 2).mean(axis, keepdim=True)
        most = c.amax(axis, keepdim=True)
        expect(
            "%y, %m, %x = mica.reduce([$0, $1], "
            '"mul.f64 %0 %1; mean.f64 $0 0; sub.f64 $0 $1; square.f64 $2; '
            "mean.f64 $3 0; add.f64 $4 1; sqrt.f64 $5; div.f64 $2 $6; "
            f'amax.f64 $0 -> $7 $1 $8 over {axis}")',
            [a, b],
            [(c - mean) / (spread + 1).sqrt(), mean, most],
        )


def test_adam_step(dtype: torch.dtype) -> None:
    p, g, m = (draw(dtype, 7, 33) for _ in range(3))
    v = draw(dtype, 7, 33).abs()
    step = torch.full((), 3, dtype=dtype)
    p2, g2, m2, v2 = (x.double() for x in (p, g, m, v))
    for decoupled in (False, True):
        shrunk = p2 * (1 - 0.1 * 0.25) if decoupled else p2
        slope = -g2 if decoupled else -g2 + 0.25 * p2
        mean = m2 + 0.1 * (slope - m2)
        square = 0.99 * v2 + 0.01 * slope * slope
        root = square.sqrt() / math.sqrt(1 - 0.99**3) + 1e-3
        expect(
            "%p, %m, %v = mica.adam_step($0, $1, $2, $3, $4, 0.1, 0.9, 0.99, "
            "0.25, 0.001, maximize=true"
            + (", is_decoupled=true)" if decoupled else ")"),
            [p, g, m, v, step],
            [shrunk - 0.1 / (1 - 0.9**3) * mean / root, mean, square],
        )


def test_sgd_step(dtype: torch.dtype) -> None:
    p, g, b = (draw(dtype, 7, 33) for _ in range(3))
    slope = g.double() + 0.25 * p.double()
    momentum = 0.9 * b.double() + 0.8 * slope
    for nesterov, way in ((False, momentum), (True, slope + 0.9 * momentum)):
        expect(
            "%p, %b = mica.sgd_step($0, $1, $2, 0.25, 0.9, 0.1, 0.2"
            + (", nesterov=true)" if nesterov else ")"),
            [p, g, b],
            [p.double() - 0.1 * way, momentum],
        )


def test_gru_cell(dtype: torch.dtype) -> None:
    gi, gh, h = draw(dtype, 2, 15), draw(dtype, 2, 15), draw(dtype, 2, 5)
    (ri, zi, ni), (rh, zh, nh) = (
        gi.double().chunk(3, 1),
        gh.double().chunk(3, 1),
    )
    new = torch.tanh(ni + torch.sigmoid(ri + rh) * nh)
    expect(
        "%y = mica.gru_cell($0, $1, $2)",
        [gi, gh, h],
        [(h.double() - new) * torch.sigmoid(zi + zh) + new],
    )


def lstm_steps(
    x: torch.Tensor,
    weights: list[torch.Tensor],
    h: torch.Tensor,
    c: torch.Tensor,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """All h, the last h and c, and all that is kept, by the formulas.

    x is [t,b,i]; the weights [4h,i], [4h,h] and two biases [4h]; h and c [b,h].
    """
    w_ih, w_hh, b_ih, b_hh = weights
    outputs, kept = [], []
    times = range(len(x))
    for t in reversed(times) if reverse else times:
        gates = x[t] @ w_ih.t() + b_ih + h @ w_hh.t() + b_hh
        i, f, g, o = gates.chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        outputs.append(h)
        kept.append(torch.cat([i, f, g, o, c], 1))
    if reverse:
        outputs.reverse()
        kept.reverse()
    return torch.stack(outputs), h, c, torch.stack(kept)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("given", ["all", "output", "states"])
def test_lstm_layer_and_its_gradients(
    dtype: torch.dtype, reverse: bool, given: str
) -> None:
    times, batch, inputs, n = 4, 3, 5, 18
    sizes = [(times, batch, inputs), (4 * n, inputs), (4 * n, n)]
    sizes += [(4 * n,), (4 * n,), (batch, n), (batch, n)]
    operands = [draw(dtype, *size) / 2 for size in sizes]
    word = str(reverse).lower()
    leaves = [x.double().requires_grad_() for x in operands]
    x, *weights, h, c = leaves
    wants = lstm_steps(x, weights, h, c, reverse)
    expect(
        "%y, %h, %c, %k = mica.lstm_layer($0, $1, $2, $3, $4, $5, $6, "
        f"{word}, [], 2, {n}, 1, true, false, false, true)",
        operands,
        [want.detach() for want in wants],
    )
    slopes = [draw(dtype, *want.shape) for want in wants[:3]]
    is_given = {
        "all": [True, True, True],
        "output": [True, False, False],
        "states": [False, True, True],
    }[given]
    loss = sum(
        (want * slope.double()).sum()
        for want, slope, is_one in zip(wants, slopes, is_given, strict=False)
        if is_one
    )
    assert isinstance(loss, torch.Tensor)
    gradients = torch.autograd.grad(loss, leaves)
    if dtype == torch.bfloat16:
        return  # What is kept is rounded, so the gradients are of other gates.
    words = [f"${10 + i}" if is_given[i] else "none" for i in range(3)]
    made = [want.detach().to(dtype) for want in wants]
    expect(
        "%x, %a, %b, %c, %d, %h, %e = mica.lstm_layer_backward($0, $1, $2, $3, "
        f"$4, $5, $6, $7, $8, $9, {', '.join(words)}, {word}, 2, {n}, 1, true, "
        "true, false, [], false, $13)",
        [*operands, *made[:3], *slopes, made[3]],
        list(gradients),
    )


def test_scatter_view(dtype: torch.dtype) -> None:
    base, part = draw(dtype, 5, 7), draw(dtype, 2, 3)
    want = base.double().clone()
    want.as_strided([2, 3], [14, 2], 1).copy_(part)
    expect(
        "%y = mica.scatter_view($0, $1, [2,3], [14,2], 1)", [base, part], [want]
    )


def test_window_at(dtype: torch.dtype) -> None:
    base, part = draw(dtype, 5, 7), draw(dtype, 2, 3)
    want = base.double().clone()
    window = want.as_strided([2, 3], [14, 2], 3)
    offset = "%o = mica.scalar_add(1.0, 2.0) : f64\n"
    expect(
        f"{offset}  %y = mica.window_at($0, [2,3], [14,2], %o)",
        [base],
        [window.clone()],
    )
    window.copy_(part)
    expect(
        f"{offset}  %y = mica.write_window_at($0, $1, [2,3], [14,2], %o)",
        [base, part],
        [want],
    )


def test_send_and_receive(dtype: torch.dtype) -> None:
    x = draw(dtype, 5, 7)
    expect("%y = mica.send($0, 1)", [x], [x.double()])
    expect("%y = mica.receive($0, 0)", [x], [x.double()])


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("mica.scalar_add(%a, 3)", 5.5),
        ("mica.scalar_sub(3, %a)", 0.5),
        ("mica.scalar_mul(%a, %a)", 6.25),
        ("mica.scalar_div(1, %a)", 0.4),
        ("mica.scalar_pow(0.9, %a)", 0.9**2.5),
        ("mica.scalar_lt(%a, 3)", 1.0),
        ("mica.scalar_lt(%a, %a)", 0.0),
        ("mica.scalar_le(%a, %a)", 1.0),
        ("mica.scalar_le(3, %a)", 0.0),
        ("mica.scalar_eq(%a, 2.5)", 1.0),
        ("mica.scalar_eq(%a, 3)", 0.0),
        ("mica.scalar_max(%a, 2)", 2.5),
        ("mica.scalar_max(2, %a)", 2.5),
        ("mica.scalar_min(%a, 2)", 2.0),
        ("mica.scalar_min(3, %a)", 2.5),
        ("mica.scalar_neg(%a)", -2.5),
        ("mica.scalar_sqrt(%a)", math.sqrt(2.5)),
        ("mica.scalar_exp(%a)", math.exp(2.5)),
        ("mica.scalar_log(%a)", math.log(2.5)),
        ("mica.scalar_log10(%a)", math.log10(2.5)),
        ("mica.scalar_log2(%a)", math.log2(2.5)),
        ("mica.scalar_tanh(%a)", math.tanh(2.5)),
        ("mica.scalar_cos(%a)", math.cos(2.5)),
        ("mica.scalar_sin(%a)", math.sin(2.5)),
        ("mica.scalar_abs(%a)", 2.5),
        ("mica.scalar_round(0.125, 2)", 0.12),
        ("mica.scalar_round(%a, 0)", 2.0),
        ("mica.int_floor(%a)", 2.0),
        ("mica.int_ceil(%a)", 3.0),
        ("mica.int_trunc(%a)", 2.0),
        ("mica.int_round(%a)", 2.0),
        ("mica.int_abs(-7)", 7.0),
        ("mica.int_max(-7, 3)", 3.0),
        ("mica.int_min(-7, 3)", -7.0),
    ],
)
def test_scalars(call: str, want: float) -> None:
    assert compute(call, 2.5) == [want] * len(agreement.EXECUTORS)


def test_sizes() -> None:
    program = _mica.Program.parse(
        "program @sizes(%x: f32[n,2]) {\n"
        '  mica.require_size("2*n-1", "<", 9)\n'
        "  %n = mica.size(n) : i64\n"
        "  %y = aten.mul.Tensor(%x, %n) : f32[n,2]\n  return %y\n}\n"
    )
    for make in agreement.EXECUTORS.values():
        executor = make()
        for n in (2, 4):
            x = torch.randn(n, 2)
            (y,) = executor.run(program, {"x": x}, {}, [])
            assert torch.equal(y, x * n)
        with pytest.raises(ValueError, match="wants 9 < 9"):
            executor.run(program, {"x": torch.randn(5, 2)}, {}, [])


def compute(call: str, a: float) -> list[float]:
    """What each executor makes of a call of the host scalar %a."""
    program = _mica.Program.parse(
        f"program @one(%a: f64) {{\n  %y = {call} : f64\n  return %y\n}}\n"
    )
    feed = {"a": torch.tensor(a, dtype=torch.float64)}
    return [
        make().run(program, feed, {}, [])[0].item()
        for make in agreement.EXECUTORS.values()
    ]


INTS = [0, 1, -1, 7, -7, 12, 2**31, -(2**53) + 1, 2**53 - 1]


def bounded_power(a: int, b: int) -> int:
    """Returns a**b; what is no int, or has 60 bits or more, as 2**53."""
    if b < 0 or (abs(a) > 1 and b > 60):
        return 2**53
    return a**b


FLOATS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 0.3, -7.25, 1e15 + 0.5]
FLOATS += [1e300, 5e-324, math.inf, -math.inf, math.nan]


def bits(number: float) -> bytes:
    """The number's own bytes; all that are no number count as one."""
    return b"nan" if math.isnan(number) else struct.pack("d", number)


@pytest.mark.parametrize(
    ("name", "python"),
    [("floordiv", operator.floordiv), ("mod", operator.mod)],
)
def test_divisions_of_floats(
    name: str, python: Callable[[float, float], float]
) -> None:
    for a in FLOATS:
        for b in filter(math.isfinite, FLOATS):
            call = f"mica.scalar_{name}(%a, {b!r})"
            if b == 0:
                with pytest.raises(ValueError, match=f"mica.scalar_{name}"):
                    compute(call, a)
                continue
            want = bits(python(a, b))
            assert {bits(got) for got in compute(call, a)} == {want}, (a, b)


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("floor", math.floor),
        ("ceil", math.ceil),
        ("trunc", int),
        ("round", round),
    ],
)
def test_whole_numbers_of_floats(
    name: str, python: Callable[[float], int]
) -> None:
    for a in FLOATS:
        call = f"mica.int_{name}(%a)"
        if math.isfinite(a) and abs(a) < 2**53:
            want = python(a)
            got = compute(call, a)
            assert got == [want] * len(got)
            assert not any(math.copysign(1, x) < 0 for x in got if x == 0)
        else:
            with pytest.raises(ValueError, match=f"mica.int_{name}"):
                compute(call, a)


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("add", operator.add),
        ("sub", operator.sub),
        ("mul", operator.mul),
        ("floordiv", operator.floordiv),
        ("mod", operator.mod),
        ("pow", bounded_power),
    ],
)
def test_ints(name: str, python: Callable[[int, int], int]) -> None:
    for a in INTS:
        for b in INTS:
            call = f"mica.int_{name}(%a, {b})"
            try:
                want = python(a, b)
            except ZeroDivisionError:
                want = 2**53
            if abs(want) < 2**53:
                got = compute(call, a)
                assert got == [want] * len(got)
                assert not any(math.copysign(1, x) < 0 for x in got if x == 0)
            else:
                with pytest.raises(ValueError, match=f"mica.int_{name}"):
                    compute(call, a)


@pytest.mark.parametrize(
    ("call", "a"),
    [
        ("mica.scalar_exp(%a)", 1e3),
        ("mica.scalar_log(%a)", 0.0),
        ("mica.scalar_log10(%a)", -1.0),
        ("mica.scalar_log2(%a)", 0.0),
        ("mica.scalar_cos(%a)", math.inf),
        ("mica.scalar_sin(%a)", -math.inf),
        ("mica.scalar_sqrt(%a)", -1.0),
        ("mica.scalar_div(1, %a)", 0.0),
        ("mica.int_floordiv(%a, 0.5)", 3.0),
        ("mica.int_mod(3, %a)", 0.5),
    ],
)
def test_what_has_no_result_is_an_error(call: str, a: float) -> None:
    with pytest.raises(ValueError, match=call.split("(")[0]):
        compute(call, a)


@pytest.mark.parametrize("number", [2.5, -7, True])
def test_a_tensor_of_one_element_as_a_number(number: Any) -> None:
    names = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}
    x = torch.tensor([[number]])
    program = _mica.Program.parse(
        f"program @one(%x: {names[x.dtype]}[1,1]) {{\n"
        f"  %y = aten._local_scalar_dense(%x) : "
        f"{names[x.dtype]}\n  return %y\n}}\n"
    )
    for make in agreement.EXECUTORS.values():
        (got,) = make().run(program, {"x": x}, {}, [])
        assert got.item() == number


def run_bounded(
    call: str, result: torch.Tensor, rows: int, **feeds: torch.Tensor
) -> None:
    """Both kernels give `result`, 0 from there up to `rows`, and its rows."""
    names = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}

    def typed(x: torch.Tensor) -> str:
        return f"{names[x.dtype]}[{','.join(map(str, x.shape))}]"

    want = result.new_zeros(rows, *result.shape[1:])
    want[: len(result)] = result
    inputs = ", ".join(f"%{name}: {typed(x)}" for name, x in feeds.items())
    program = _mica.Program.parse(
        f"program @one({inputs}) {{\n"
        f"  %y, %n = {call} : {typed(want)}, i64[]\n  return %y, %n\n}}\n"
    )
    for make in agreement.EXECUTORS.values():
        got, count = make().run(program, feeds, {}, [])
        assert count.item() == len(result)
        assert torch.equal(got, want)


@pytest.mark.parametrize("sizes", [(), (7,), (3, 4), (2, 3, 5), (0, 4)])
def test_results_as_large_as_they_may_be(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(sizes).relu()
    rows = x.numel()
    run_bounded("mica.nonzero(%x)", torch.nonzero(x), rows, x=x)
    chosen = torch.masked_select(x, x > 0.5)
    call = "mica.masked_select(%x, %m)"
    run_bounded(call, chosen, rows, x=x, m=x > 0.5)


def test_keep() -> None:
    program = _mica.Program.parse(
        "program @kept(%x: f32[3,2], %i: i64[2]) {\n"
        "  %a = aten.index_select(%x, 0, %i) : f32[2,2]\n"
        "  mica.keep(%a)\n"
        "  %y = aten.neg(%x) : f32[3,2]\n  return %y\n}\n"
    )
    x = torch.randn(3, 2)
    for make in agreement.EXECUTORS.values():
        executor = make()
        good = {"x": x, "i": torch.tensor([2, 0])}
        (y,) = executor.run(program, good, {}, [])
        assert torch.equal(y, -x)
        with pytest.raises(ValueError, match="out of range"):
            executor.run(program, {"x": x, "i": torch.tensor([3, 0])}, {}, [])


# Ops with a test above.
TESTED = {
    "mica.adam_step",
    "mica.elementwise",
    "mica.reduce",
    "mica.sgd_step",
    "mica.add_layer_norm",
    "mica.batch_norm_scale",
    "mica.convolution",
    "mica.fold_batch_norm",
    "mica.gru_cell",
    "mica.int4_linear",
    "mica.int8_linear",
    "mica.quantise_int4",
    "mica.quantise_int8",
    "mica.int_abs",
    "mica.int_add",
    "mica.int_ceil",
    "mica.int_floor",
    "mica.int_floordiv",
    "mica.int_max",
    "mica.int_min",
    "mica.int_mod",
    "mica.int_mul",
    "mica.int_pow",
    "mica.int_round",
    "mica.int_sub",
    "mica.int_trunc",
    "mica.keep",
    "mica.linear",
    "mica.lstm_layer",
    "mica.lstm_layer_backward",
    "mica.masked_select",
    "mica.nonzero",
    "mica.receive",
    "mica.require_size",
    "mica.scalar_abs",
    "mica.scalar_add",
    "mica.scalar_cos",
    "mica.scalar_div",
    "mica.scalar_eq",
    "mica.scalar_exp",
    "mica.scalar_floordiv",
    "mica.scalar_le",
    "mica.scalar_log",
    "mica.scalar_log10",
    "mica.scalar_log2",
    "mica.scalar_lt",
    "mica.scalar_max",
    "mica.scalar_min",
    "mica.scalar_mod",
    "mica.scalar_mul",
    "mica.scalar_neg",
    "mica.scalar_pow",
    "mica.scalar_round",
    "mica.scalar_sin",
    "mica.scalar_sqrt",
    "mica.scalar_tanh",
    "mica.size",
    "mica.scalar_sub",
    "mica.scale_channels",
    "mica.scaled_convolution",
    "mica.scatter_view",
    "mica.send",
    "mica.window_at",
    "mica.write_window_at",
}


def test_every_own_op_has_a_formula() -> None:
    own = {name for name in agreement.registered() if name[:5] == "mica."}
    own -= {
        "mica.if",
        "mica.while",
        "mica.call",
    }  # They are what their bodies are.
    assert own == TESTED
