"""Programs with complex tensors: one graph, with eager's numbers bit for bit.

Where real numbers are computed with, too, the program is compiled as exact:
Mica's own kernels round elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from e2e.capture.agreement_of_calls import call_and_tell, report
from torch import nn

import mica

CALLS = 4


def c(seed: int, *shape: int, dtype: torch.dtype = torch.cfloat) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape or (4, 8), generator=generator, dtype=dtype)


def r(seed: int, *shape: int) -> torch.Tensor:
    return c(seed, *shape, dtype=torch.float32)


def stored(t: torch.Tensor) -> bytes:
    t = t.detach().resolve_conj().resolve_neg()
    if t.is_complex():
        t = torch.view_as_real(t)
    return bytes(t.contiguous().view(-1).view(torch.uint8).tolist())


def same_bits(a: Any, b: Any) -> None:
    """Asserts that two results are equal, lazy bits and each bit included."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.numel() < 2 or a.stride() == b.stride()
        assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg())
        assert a.requires_grad == b.requires_grad
        assert stored(a) == stored(b), (a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same_bits(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same_bits(x, y)
    else:
        assert a == b or a != a


def agree(
    make: Callable[[], Any],
    inputs: Callable[[int], tuple[Any, ...]],
    outcomes: str = "chhh",
    state: Callable[[Any], Any] = lambda fn: None,
) -> Any:
    """Runs a program and a twin of it; the outcomes are call_and_tell()'s."""
    mine, twin = make(), make()
    compiled = mica.compile(mine, exact=True)
    told = ""
    for i in range(len(outcomes)):
        mine_in, twin_in = inputs(i), inputs(i)
        got, letter = call_and_tell(compiled, *mine_in)
        told += letter
        same_bits(got, twin(*twin_in))
        same_bits(mine_in, twin_in)
        same_bits(state(mine), state(twin))
    assert told == outcomes, str(report(compiled))
    return compiled


def one(seed: int) -> tuple[Any, ...]:
    return (c(seed),)


def real(seed: int) -> tuple[Any, ...]:
    return (r(seed),)


def held(program: Callable[..., Any], inputs: Any = one) -> Any:
    """A function that keeps nothing."""
    return agree(lambda: program, inputs)


def spectrum(a):
    f = torch.fft.fft(a, norm="ortho")
    return f, torch.fft.ifft2(f), torch.fft.irfft(f), torch.fft.fftshift(f)


def real_spectrum(a):
    f = torch.fft.rfftn(a)
    return f.abs(), f.angle(), torch.fft.irfftn(f * 0.5), torch.fft.ihfft(a)


def hilbert(a):
    n = a.shape[-1]
    step = torch.zeros(n)
    step[0] = step[n // 2] = 1
    step[1 : n // 2] = 2
    return torch.fft.ifft(torch.fft.fft(a) * step)


def numbers(a):
    return (
        1j * a,
        a + (2 - 3j),
        a / 2,
        (1 + 2j) ** a,
        a ** (0.5 + 1j),
        torch.full((3,), 2j),
        torch.add(a, a, alpha=1j),
        torch.tensor([1j, -0.0, math.nan]),
        torch.zeros(2, dtype=torch.complex128) + a[0, 0],
        a.sum() * True,
    )


def made_of_real(a):
    z = torch.complex(a, -a)
    return z, torch.polar(a.abs(), a), a * 1j, a + 0j, z.to(torch.complex128)


def shapes(a):
    return (
        a.t().contiguous(),
        torch.cat([a, a.conj()]),
        a[::2, 1:5],
        a.flip(0),
        F.pad(a, (1, 2)),
        a.expand(2, 4, 8),
        torch.where(a.real > 0, a, 0),
        torch.einsum("ij,kj->ik", a, a.conj()),
        torch.linalg.inv(a[:, :4]),
        a.var(),
        a.abs().max(),
    )


@pytest.mark.parametrize("program", [spectrum, numbers, shapes])
def test_programs_of_complex_tensors(program):
    held(program)


@pytest.mark.parametrize("program", [real_spectrum, hilbert, made_of_real])
def test_programs_of_real_tensors(program):
    held(program, real)


def test_short_time_spectra():
    window = torch.hann_window(32)

    def program(a):
        s = torch.stft(a, 32, 8, window=window, return_complex=True)
        return s, torch.istft(s * 0.5, 32, 8, window=window)

    held(program, lambda seed: (r(seed, 2, 256),))


def test_rotary_embeddings():
    def program(q):
        rates = 1.0 / (10000.0 ** (torch.arange(0, 8, 2).float() / 8))
        angles = torch.outer(torch.arange(6).float(), rates)
        turn = torch.polar(torch.ones_like(angles), angles)[None, :, None]
        pairs = torch.view_as_complex(q.float().reshape(2, 6, 4, -1, 2))
        return torch.view_as_real(pairs * turn).flatten(3).type_as(q)

    held(program, lambda seed: (r(seed, 2, 6, 4, 8),))


def lazy(a):
    b = a * 2
    return (
        a.conj(),
        a.conj().imag,
        b.conj(),
        b.mH @ b,
        b.conj() @ b.conj().t(),
        torch.vdot(b[0], b.conj()[1]),
        b.conj().imag.t() + 1,
        b.conj().resolve_conj(),
        torch.cat([b.conj().imag, b.imag]),
        b.conj().clone(),
    )


def lazily_written(a):
    b = a * 1
    z = b.conj()
    z.mul_(1j)
    z[0] += 2
    z.imag.add_(1)
    z.copy_(z.t().reshape(4, 8))
    return b, z, z.imag


def parts_written(a):
    a.mul_(2j)
    a.real[1] = 0
    torch.view_as_real(a)[2, :, 1] = 5
    a.conj().add_(3 + 1j)
    a.conj().imag.copy_(a.real.abs())
    return a.sum(), a.real, a.imag, torch.view_as_real(a), a


def test_lazy_bits_are_part_of_results():
    held(lazy)


def test_writes_through_lazy_views_and_parts():
    held(lazily_written)
    held(parts_written)


def test_parts_that_are_set():
    class Setter:
        by = 1.0

        def __call__(self, a):
            b = a * 2
            b.real = self.by
            b.imag = a.real
            a.imag = b.conj().imag
            return b, a + 0

    setter = Setter()
    compiled = mica.compile(setter)
    for i, (by, outcome) in enumerate(zip((1.0, 1.0, 2.0, 3.0), "chcc")):
        setter.by = by
        mine, twin = c(i), c(i)
        got, letter = call_and_tell(compiled, mine)
        assert letter == outcome
        same_bits(got, setter(twin))
        same_bits(mine, twin)


def test_complex_numbers_written_to_real_memory():
    def made(a):
        z = a + 1
        y = torch.view_as_complex(z.view(4, 4, 2))
        y[:, 2] = 3j
        z[0] = 1
        y.imag.mul_(2)
        return z, y

    def given(a):
        y = torch.view_as_complex(a.view(4, 4, 2))
        y.mul_(1j)
        y[1].conj().add_(1)
        return y.abs()

    held(made, real)
    held(given, real)


def test_lazy_arguments_are_other_records():
    def program(a):
        return a * 2 + a.imag, a @ a.mH

    def inputs(i):
        return (c(i).conj() if i in (1, 3, 4) else c(i),)

    agree(lambda: program, inputs, "cchhh")


def test_lazy_arguments_may_be_written():
    def program(n, z):
        z.mul_(2)
        n.add_(1)
        return n * 2, z.sum(), z, n

    held(program, lambda i: (c(i).conj().imag, c(i).conj()))


def test_parts_of_lazy_arguments_are_views_of_them():
    def program(z):
        z.imag[1:].add_(1)
        return z.real, z.imag, z.conj().imag, z.real.mul_(2), z.conj(), z

    held(program, lambda i: (c(i).conj(),))


def test_parts_of_lazy_state_are_views_of_it():
    class Reads:
        def __init__(self):
            self.z = c(7).conj()

        def __call__(self, x):
            return x * 2, self.z.real, self.z.imag, self.z.conj()

    agree(Reads, lambda i: (r(i, 3),), "chhh")


def test_a_view_as_complex_numbers_begins_at_an_even_place():
    def program(a):
        return torch.view_as_complex(a) * 2j

    memory = r(0, 10)
    pairs = memory[:8].view(4, 2)
    compiled = mica.compile(program)
    for _ in range(2):
        same_bits(compiled(pairs), program(pairs))
    assert report(compiled).hits == 1
    same_bits(compiled(memory[2:].view(4, 2)), program(memory[2:].view(4, 2)))
    assert report(compiled).hits == 2
    with pytest.raises(RuntimeError, match="divisible by 2"):
        compiled(memory[1:9].view(4, 2))


def test_numbers_that_python_reads_are_checked():
    def program(a):
        number = a[1].item()
        return number, a * number

    def inputs(i):
        a = c(7, 3)
        if i == 2:
            a.imag[1] += 1
        if i == 4:
            a = a.to(torch.complex128)
        return (a,)

    agree(lambda: program, inputs, "chchc")


def test_complex_constants_of_the_state_are_guarded():
    class Turn:
        by = 1j

        def __call__(self, a):
            return a * self.by

    turn = Turn()
    compiled = mica.compile(turn)
    for by, outcome in ((1j, "c"), (1j, "h"), (-1j, "c"), (complex(1), "c")):
        turn.by = by
        got, letter = call_and_tell(compiled, c(3))
        assert letter == outcome
        same_bits(got, c(3) * by)


def test_a_dtype_is_another_record():
    def inputs(i):
        kinds = (torch.cfloat, torch.complex128, torch.float32)
        return (c(i, dtype=kinds[i % 3]),)

    agree(lambda: lambda a: torch.fft.fft(a) * a, inputs, "ccchhh")


def test_state_that_is_complex_and_written():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8, dtype=torch.cfloat))
            self.weight = nn.Parameter(c(1, 3, 8))

        def forward(self, a):
            self.mean.mul_(0.9).add_(a.mean(0), alpha=0.1 - 0.2j)
            return F.linear(a - self.mean, self.weight)

    agree(Mean, one, state=lambda m: dict(m.state_dict()))


def test_lazy_state_that_is_carried():
    class Carry:
        def __init__(self):
            self.h = c(5).conj()

        def __call__(self, a):
            out = a * self.h
            self.h = out.conj()
            return out

    agree(Carry, one, "echhh", state=lambda f: f.h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8, dtype=torch.cfloat)
        self.b = nn.Linear(8, 4, dtype=torch.cfloat)
        for i, p in enumerate(self.parameters()):
            p.data.copy_(c(i, *p.shape) * 0.3)

    def forward(self, a):
        return self.b(torch.tanh(self.a(a)))


class Spectral(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(c(0, 8, 8, 5) * 0.3)

    def forward(self, a):
        a = a.real
        f = torch.fft.rfft(a)
        kept = torch.zeros(4, 8, 5, dtype=torch.cfloat)
        kept[..., :3] = torch.einsum("bx,iox->box", f, self.weight)[..., :3]
        return torch.fft.irfft(kept, n=8).conj() * 1j


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "foreach": lambda p: torch.optim.SGD(p, 0.05, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01),
}


class Step:
    def __init__(self, net, optimizer):
        self.net = net()
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters())

    def __call__(self, a):
        self.optimizer.zero_grad()
        y = self.net(a)
        loss = y.abs().square().mean() + (y.conj().imag ** 2 - y.real).sum()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self):
        parameters = list(self.net.parameters())
        return (
            parameters,
            [p.grad for p in parameters],
            self.optimizer.state_dict()["state"],
        )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("net", [Net, Spectral])
def test_training_steps(net, optimizer):
    with torch.enable_grad():
        compiled = agree(
            lambda: Step(net, optimizer),
            one,
            # Without momentum no state is made, but gradients are.
            "cchhhh" if optimizer == "foreach" else "echhhh",
            state=Step.state,
        )
    assert report(compiled).hits == 4


def test_gradients_that_are_lazily_conjugated():
    def make():
        w = c(5, 8, 3).requires_grad_()

        def fresh(a):
            w.grad = None
            (a @ w).conj().imag.sum().backward()
            return w.grad

        return fresh

    with torch.enable_grad():
        agree(make, one, "cchh")  # The first one finds no gradient.
