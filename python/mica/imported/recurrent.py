"""Recurrent layers, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator

Tensor = torch.Tensor
Activation = Callable[[Tensor], Tensor]
Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _activation(
    name: str, alpha: float | None, beta: float | None
) -> Activation:
    """An activation by its name."""
    plain: dict[str, Activation] = {
        "relu": torch.relu,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "softsign": F.softsign,
        "softplus": F.softplus,
    }
    key = name.lower()
    if key in plain:
        return plain[key]

    def pick(value: float | None, otherwise: float) -> float:
        return otherwise if value is None else value

    a = {"leakyrelu": 0.01, "hardsigmoid": 0.2}.get(key, 1.0)
    a, b = pick(alpha, a), pick(beta, 0.5)
    made: dict[str, Activation] = {
        "affine": lambda x: a * x + (0.0 if beta is None else beta),
        "leakyrelu": lambda x: F.leaky_relu(x, a),
        "thresholdedrelu": lambda x: torch.where(x > a, x, 0.0),
        "scaledtanh": lambda x: a * torch.tanh(pick(beta, 1.0) * x),
        "hardsigmoid": lambda x: torch.clamp(a * x + b, 0.0, 1.0),
        "elu": lambda x: F.elu(x, a),
    }
    if key not in made:
        raise NotImplementedError(f"activation '{name}' of a recurrent layer")
    return made[key]


def _activations(
    names: tuple[str, ...] | None,
    alphas: tuple[float, ...],
    betas: tuple[float, ...],
    default: tuple[str, ...],
    directions: int,
) -> list[list[Activation]]:
    """For each direction its activations."""
    chosen = names or default * directions
    made = []
    for place, name in enumerate(chosen):
        alpha = alphas[place] if place < len(alphas) else None
        beta = betas[place] if place < len(betas) else None
        made.append(_activation(name, alpha, beta))
    each = len(default)
    return [made[d * each : (d + 1) * each] for d in range(directions)]


def _run(
    x: Tensor,
    first: tuple[Tensor, ...],
    cell: Cell,
    lengths: Tensor | None,
    is_reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One direction: all hidden states, and the last ones.

    Args:
      x: [length, batch, …].
      first: The states before the first step, [batch, hidden] each.
      cell: Makes new states of a step's input and the states.
      lengths: [batch], where sequences end.
      is_reverse: From the last step to the first.
    """
    if is_reverse:
        x = _reversed(x, lengths)
    states, rows = first, []
    for t in range(x.shape[0]):
        new = cell(x[t], states)
        if lengths is None:
            states = new
            rows.append(states[0])
        else:
            runs = (lengths > t)[:, None]
            states = tuple(
                [
                    torch.where(runs, a, b)
                    for a, b in zip(new, states, strict=True)
                ]
            )
            rows.append(torch.where(runs, states[0], 0.0))
    y = torch.stack(rows)
    return (_reversed(y, lengths) if is_reverse else y), states


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Steps in the reverse order, up to the sequences' ends."""
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(x.shape[0])[:, None]
    ends = lengths.to(torch.int64)[None]
    places = torch.where(steps < ends, ends - 1 - steps, steps)
    return x[places, torch.arange(x.shape[1])[None]]


def _layer(
    x: Tensor,
    lengths: Tensor | None,
    firsts: tuple[Tensor | None, ...],
    make: Callable[[int], Cell],
    directions: int,
    is_reverse: bool,
    hidden: int,
    layout: int,
    outputs: int,
) -> Any:
    """All directions of a layer: outputs as ONNX has them."""
    if layout:
        x = x.transpose(0, 1)
        firsts = tuple(
            [None if f is None else f.transpose(0, 1) for f in firsts]
        )
    rows, lasts = [], []
    for d in range(directions):
        first = tuple(
            [
                x.new_zeros(x.shape[1], hidden) if f is None else f[d]
                for f in firsts
            ]
        )
        y, last = _run(x, first, make(d), lengths, is_reverse or d == 1)
        rows.append(y)
        lasts.append(last)
    made = [torch.stack(rows, 1)]
    made += [torch.stack(states) for states in zip(*lasts, strict=True)]
    if layout:
        made[0] = made[0].permute(2, 0, 1, 3)
        made[1:] = [state.transpose(0, 1) for state in made[1:]]
    return made[0] if outputs == 1 else tuple(made[:outputs])


def _cut(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else torch.clamp(x, -clip, clip)


def _gates(
    weight: Tensor, again: Tensor, bias: Tensor | None, d: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """One direction's weights and biases, of the input and the state."""
    if bias is None:
        return weight[d], again[d], None, None
    b = bias[d]
    half = b.shape[0] // 2
    return weight[d], again[d], b[:half], b[half:]


@operator("RNN", 7)
def rnn(
    x: Tensor,
    weight: Tensor,
    again: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    first: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    outputs: int,
) -> Any:
    """A plain recurrent layer."""
    count = weight.shape[0]
    numbers = (activation_alpha, activation_beta)
    functions = _activations(activations, *numbers, ("Tanh",), count)

    def make(d: int) -> Cell:
        w, r, wb, rb = _gates(weight, again, bias, d)
        (f,) = functions[d]

        def cell(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            gate = F.linear(row, w, wb) + F.linear(states[0], r, rb)
            return (f(_cut(gate, clip)),)

        return cell

    way = (count, direction == "reverse", hidden_size, layout, outputs)
    return _layer(x, lengths, (first,), make, *way)


@operator("GRU", 7)
def gru(
    x: Tensor,
    weight: Tensor,
    again: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    first: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    linear_before_reset: int = 0,
    outputs: int,
) -> Any:
    """A gated recurrent layer: gates update, reset and hidden."""
    count = weight.shape[0]
    numbers = (activation_alpha, activation_beta)
    functions = _activations(activations, *numbers, ("Sigmoid", "Tanh"), count)

    def make(d: int) -> Cell:
        w, r, wb, rb = _gates(weight, again, bias, d)
        f, g = functions[d]
        two = 2 * hidden_size
        rbh = None if rb is None else rb[two:]

        def cell(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (h,) = states
            given = F.linear(row, w, wb)
            both = given[:, :two] + F.linear(
                h, r[:two], None if rb is None else rb[:two]
            )
            update, reset = f(_cut(both, clip)).chunk(2, 1)
            if linear_before_reset:
                inner = reset * F.linear(h, r[two:], rbh)
            else:
                inner = F.linear(reset * h, r[two:], rbh)
            new = g(_cut(given[:, two:] + inner, clip))
            return ((1 - update) * new + update * h,)

        return cell

    way = (count, direction == "reverse", hidden_size, layout, outputs)
    return _layer(x, lengths, (first,), make, *way)


@operator("LSTM", 7)
def lstm(
    x: Tensor,
    weight: Tensor,
    again: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    first_h: Tensor | None = None,
    first_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    input_forget: int = 0,
    layout: int = 0,
    outputs: int,
) -> Any:
    """A layer with memory: gates input, output, forget and cell."""
    count = weight.shape[0]
    numbers = (activation_alpha, activation_beta)
    functions = _activations(
        activations, *numbers, ("Sigmoid", "Tanh", "Tanh"), count
    )

    def make(d: int) -> Cell:
        w, r, wb, rb = _gates(weight, again, bias, d)
        f, g, h = functions[d]
        p = None if peepholes is None else peepholes[d].chunk(3)

        def cell(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            hidden, memory = states
            gates = F.linear(row, w, wb) + F.linear(hidden, r, rb)
            i, o, forget, c = gates.chunk(4, 1)
            if p is not None:
                i, forget = i + p[0] * memory, forget + p[2] * memory
            i = f(_cut(i, clip))
            forget = 1 - i if input_forget else f(_cut(forget, clip))
            memory = forget * memory + i * g(_cut(c, clip))
            if p is not None:
                o = o + p[1] * memory
            return f(_cut(o, clip)) * h(memory), memory

        return cell

    way = (count, direction == "reverse", hidden_size, layout, outputs)
    return _layer(x, lengths, (first_h, first_c), make, *way)
