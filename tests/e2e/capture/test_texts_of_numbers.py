"""Texts that a program makes of numbers: made again at each hit."""

# ruff: noqa: UP031, UP032  # All ways to make text are tried.

from __future__ import annotations

import contextlib
import io
import logging

import pytest
import torch
from torch import nn

import mica

log = logging.getLogger("texts of numbers")


class State:
    def __init__(self):
        self.clear()

    def clear(self):
        self.last: object = None
        self.lines: list[object] = []


state = State()


def told(fn, calls):
    """What calls return, print, log and leave in the state."""
    out = io.StringIO()
    state.clear()
    log.handlers = [logging.StreamHandler(out)]
    log.propagate = False
    with contextlib.redirect_stdout(out):
        results = [fn(*args) for args in calls]
    return results, out.getvalue(), state.last, list(state.lines)


def same(got, want):
    assert type(got) is type(want)
    if isinstance(want, torch.Tensor):
        assert torch.equal(got, want)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
    elif isinstance(want, dict):
        same(list(got.items()), list(want.items()))
    else:
        assert got == want


def check(fn, calls):
    compiled = mica.compile(fn, exact=True)
    same(told(compiled, calls), told(fn, calls))
    return mica.explain(compiled)


def vectors():
    torch.manual_seed(0)
    return [(torch.randn(4),) for _ in range(6)]


def printed(x):
    loss = (x * x).mean()
    print(f"loss {loss.item():.4f} of {loss:.2f}", end=";")
    return loss


def printed_with_a_rate(x):
    print("%.3f" % x.sum().item(), f"{round(x.mean().item(), 2)}", sep="|")
    return x


def logged(x):
    log.warning(f"sum {x.sum().item():.2f}")
    log.warning("sum %.2f", x.sum().item())
    return x


def kept(x):
    text = f"{x.sum().item():.1f}"
    state.last = text
    state.lines.append(text)
    state.lines.append(x.sum().item())
    return x * 2


def kept_by_an_instance(x):
    class Entry:
        pass

    return {"loss": f"{x.sum().item():.2f}"}, [str(x.max().item())]


def shared(x):
    number = x.sum().item()
    text = str(number)
    return number, text, f"{text} and {text}", number, text + "!"


def of_a_number_alone(x):
    return x.sum().item().__repr__(), format(x.sum().item(), ".2e")


MADE_AGAIN = {
    "print": printed,
    "print of several": printed_with_a_rate,
    "log": logged,
    "state": kept,
    "containers": kept_by_an_instance,
    "shared": shared,
    "format()": of_a_number_alone,
    "methods": lambda x: f"{x.sum().item():>9.2f}".strip().upper().center(12),
    "join": lambda x: ", ".join([f"{v.item():.1f}" for v in x] + ["end"]),
    "str.format()": lambda x: "{:.3f} {b!r}".format(x[0].item(), b=x[1].item()),
    "ints": lambda x: (
        lambda n: (f"{n}", n, str(n), f"{n:03d}", f"{n!r:>4}", "%d" % n)
    )(int(x.abs().sum().item())),
    "one character": lambda x: (f"{int(x.abs().sum().item()) % 10}", "3", "4"),
    "a conversion": lambda x: f"{x.sum().item()!r} {x.sum().item()!s:>24}",
    "concatenation": lambda x: "a" + str(x.sum().item()) + f"{2}" + "b",
    "percent of several": lambda x: "%s=%.2f" % ("a", x.sum().item()),
    "a text in a text": lambda x: f"[{f'{x.sum().item():.2f}':>8}]",
}


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_made_again(name):
    calls = vectors()
    explained = check(MADE_AGAIN[name], calls)
    assert (explained.captures, explained.hits) == (1, len(calls) - 1)


def test_a_text_of_a_class_of_its_own():
    class Meter:
        def __init__(self):
            self.total = 0.0
            self.count = 0

        def update(self, value):
            self.total += value
            self.count += 1

        def __str__(self):
            return f"{self.total / self.count:.3f} ({self.count})"

    def make():
        meter = Meter()

        def step(x):
            meter.update(x.sum().item())
            print(f"meter {meter}")
            return x

        return step

    calls = vectors() * 2
    compiled = mica.compile(make(), exact=True)
    same(told(compiled, calls), told(make(), calls))
    assert mica.explain(compiled).hits >= len(calls) - 3


@torch.enable_grad()
def test_a_training_step_that_tells_of_its_loss():
    def make():
        torch.manual_seed(0)
        net = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

        def step(x):
            optimizer.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            print(f"loss {loss.item():.3f}")
            state.lines.append(f"{loss.item():.2f}")
            return {"loss": loss.item()}

        return step

    torch.manual_seed(1)
    calls = [(torch.randn(8, 4),) for _ in range(8)]
    compiled = mica.compile(make(), exact=True)
    same(told(compiled, calls), told(make(), calls))
    explained = mica.explain(compiled)
    assert explained.captures <= 2 and explained.hits >= 6


# ---- who looks at a text uses its numbers ----


def text_of(x):
    return f"{x.sum().item():.1f}"


USED = {
    "a branch": lambda x: x + 1 if text_of(x).startswith("-") else x - 1,
    "truth": lambda x: x + 1 if text_of(x).strip("0.-") else x,
    "a key": lambda x: {text_of(x): x.sum()},
    "a member": lambda x: {text_of(x), "a"},
    "a length": lambda x: x * len(text_of(x)),
    "a number again": lambda x: x * float(text_of(x)),
    "characters": lambda x: [c for c in text_of(x)],
    "an iterator": lambda x: next(iter(text_of(x))),
    "unpacked": lambda x: (lambda a, *b: (a, b))(*text_of(x)),
    "listed": lambda x: list(text_of(x)),
    "extended": lambda x: [*[0], *text_of(x)],
    "an item": lambda x: text_of(x)[0],
    "equality": lambda x: x if text_of(x) == "0.0" else x * 2,
    "order": lambda x: x if text_of(x) < "0" else x * 2,
    "contained": lambda x: ("-" in text_of(x), text_of(x) in ("0.1", "0.2")),
    "an attribute": lambda x: getattr(x, "T" if text_of(x) > "0" else "data"),
    "a width": lambda x: f"{3.5:{int(x.abs().sum().item())}}",
    "a character": lambda x: f"{int(x.abs().sum().item()) + 60:c}",
    "%c": lambda x: "%c" % (int(x.abs().sum().item()) + 60),
    "a template": lambda x: (text_of(x) + " %d") % 3,
    "a list's text": lambda x: str([text_of(x)]),
    "sorted": lambda x: sorted([text_of(x), "0", "-0.5"]),
    "the largest": lambda x: max(text_of(x), "0"),
    "a hash": lambda x: hash(text_of(x)) == hash("0.1"),
    "encoded": lambda x: text_of(x).encode(),
    "split": lambda x: text_of(x).split("."),
    "find()": lambda x: text_of(x).find("."),
    "empty": lambda x: (
        f"{x.sum().item():.0s}" if False else f"{str(x.sum().item()):.0s}"
    ),
}


@pytest.mark.parametrize("name", USED)
def test_whoever_looks_at_it_uses_the_numbers(name):
    calls = vectors()
    check(USED[name], calls + calls[:2])


def test_sizes_in_texts():
    def f(x):
        print(f"{x.shape[0]} rows, sum {x.sum().item():.2f}, {x.shape}")
        return "%d %.1f" % (len(x), x.sum().item()), f"{x.shape[0]} %d" % 3

    calls = [(torch.randn(size, 3),) for size in (4, 5, 7, 4, 8, 5, 11)]
    check(f, calls)


@torch.enable_grad()
def test_a_progress_bar():
    tqdm = pytest.importorskip("tqdm")
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    out = io.StringIO()
    bar = tqdm.tqdm(total=8, file=out, mininterval=0)

    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=loss.item())
        bar.update(1)
        return loss.detach()

    compiled = mica.compile(step, exact=True)
    for i in range(8):
        loss = compiled(torch.randn(8, 4)).item()
        assert bar.n == i + 1
        assert bar.postfix == "loss=" + bar.format_num(loss)
    assert "8/8" in out.getvalue() and bar.postfix in out.getvalue()
    explained = mica.explain(compiled)
    assert explained.captures <= 2 and explained.hits >= 5
