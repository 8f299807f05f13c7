"""Programs whose way depends on data or sizes: MagPy's five.

Each has a module and draws inputs; weights are random, so a number decides
which way is taken as often as its distribution says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional


class LoopedLstm(nn.Module):
    """Cells above each other, step by step in Python."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cells = nn.ModuleList(
            nn.LSTMCell(hidden, hidden) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[time, batch, hidden] -> f32[batch, hidden]."""
        zeros = x.new_zeros(x.shape[1], self.hidden)
        states = [(zeros, zeros) for _ in self.cells]
        for t in range(x.shape[0]):
            h = x[t]
            for i, cell in enumerate(self.cells):
                states[i] = cell(h, states[i])
                h = states[i][0]
        return h


class Seq2Seq(nn.Module):
    """Translates until the end is drawn, or as long as is allowed."""

    END = 44

    def __init__(self, hidden: int, words: int, most: int) -> None:
        super().__init__()
        self.most = most
        self.embed = nn.Embedding(words, hidden)
        self.encoder = nn.GRUCell(hidden, hidden)
        self.decoder = nn.GRUCell(hidden, hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, words)

    def forward(self, source: torch.Tensor) -> list[int]:
        """i64[time] -> the words."""
        h = self.embed.weight.new_zeros(1, self.encoder.hidden_size)
        seen = []
        for t in range(source.shape[0]):
            h = self.encoder(self.embed(source[t : t + 1]), h)
            seen.append(h)
        memory = torch.cat(seen)
        word = source.new_zeros(1)
        words: list[int] = []
        for _ in range(self.most):
            h = self.decoder(self.embed(word), h)
            weights = functional.softmax(h @ memory.t(), dim=1)
            mixed = torch.tanh(self.mix(torch.cat([weights @ memory, h], 1)))
            word = self.out(mixed).argmax(1)
            words.append(int(word))
            if words[-1] == self.END:
                break
        return words


class Residual(nn.Module):
    """Two convolutions beside a way past them, of any stride."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, inputs, …] -> f32[batch, outputs, …], not added to x."""
        x = functional.relu(self.bn1(self.conv1(x)))
        return self.bn2(self.conv2(x))  # type: ignore[no-any-return]


class BlockDrop(nn.Module):
    """A residual network of which a policy drops blocks, image by image."""

    def __init__(self, per_stage: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.stages = nn.ModuleList()
        self.pasts = nn.ModuleList()
        for width, stride, before in ((16, 1, 16), (32, 2, 16), (64, 2, 32)):
            self.stages.append(
                nn.ModuleList(
                    Residual(
                        before if i == 0 else width,
                        width,
                        stride if i == 0 else 1,
                    )
                    for i in range(per_stage)
                )
            )
            self.pasts.append(
                nn.Identity()
                if before == width
                else nn.Conv2d(before, width, 1, stride)
            )
        self.head = nn.Linear(64, 10)
        self.policy = nn.Linear(3 * 4 * 4, 3 * per_stage)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[1, 3, 32, 32] -> f32[1, 10]."""
        small = functional.adaptive_avg_pool2d(x, 4).flatten(1)
        keep = torch.sigmoid(self.policy(small))[0] > 0.5
        x = functional.relu(self.stem(x))
        at = 0
        for stage, past in zip(self.stages, self.pasts, strict=True):
            for i, block in enumerate(cast(nn.ModuleList, stage)):
                identity = past(x) if i == 0 else x
                if keep[at]:
                    x = functional.relu(identity + block(x))
                else:
                    x = functional.relu(identity)
                at += 1
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class EarlyExit(nn.Module):
    """A residual network that ends once it is sure."""

    def __init__(self, per_stage: int, sure: float) -> None:
        super().__init__()
        self.sure = sure
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks, self.pasts = nn.ModuleList(), nn.ModuleList()
        self.heads = nn.ModuleList()
        before = 16
        for width in (16, 32, 64):
            for i in range(per_stage):
                stride = 2 if i == 0 and width > 16 else 1
                self.blocks.append(Residual(before, width, stride))
                self.pasts.append(
                    nn.Identity()
                    if before == width
                    else nn.Conv2d(before, width, 1, stride)
                )
                self.heads.append(nn.Linear(width, 10))
                before = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[1, 3, 32, 32] -> f32[1, 10]."""
        x = functional.relu(self.stem(x))
        for block, past, head in zip(
            self.blocks, self.pasts, self.heads, strict=True
        ):
            x = functional.relu(past(x) + block(x))
            scores = functional.softmax(head(x.mean((2, 3))), dim=1)
            if scores.max().item() > self.sure:
                return scores
        return scores


@dataclass
class Tree:
    """A word, and what is below it."""

    word: torch.Tensor
    children: list[Tree]


class TreeLstm(nn.Module):
    """The sum of children's states goes into their parent's cell."""

    def __init__(self, hidden: int, words: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Embedding(words, hidden)
        self.iou = nn.Linear(2 * hidden, 3 * hidden)
        self.forget = nn.Linear(2 * hidden, hidden)

    def node(self, tree: Tree) -> tuple[torch.Tensor, torch.Tensor]:
        """Two f32[1, hidden]."""
        x = self.embed(tree.word)
        below = [self.node(child) for child in tree.children]
        h_sum = x.new_zeros(1, self.hidden)
        for h, _ in below:
            h_sum = h_sum + h
        i, o, u = self.iou(torch.cat([x, h_sum], 1)).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        for h, c_below in below:
            f = torch.sigmoid(self.forget(torch.cat([x, h], 1)))
            c = c + f * c_below
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, tree: Tree) -> torch.Tensor:
        """f32[1, hidden]."""
        return self.node(tree)[0]


@dataclass
class Program:
    """A module, and arguments of its calls by number."""

    name: str
    module: nn.Module
    draw: Callable[[torch.Generator], tuple[Any, ...]]
    is_launch_bound: bool

    def inputs(self, count: int, seed: int) -> Iterator[tuple[Any, ...]]:
        """Yields as many tuples of arguments."""
        generator = torch.Generator().manual_seed(seed)
        for _ in range(count):
            yield self.draw(generator)


def _number(low: int, high: int, generator: torch.Generator) -> int:
    return int(torch.randint(low, high, (), generator=generator))


def _image(generator: torch.Generator) -> torch.Tensor:
    """f32[1, 3, 32, 32] of its own contrast and colour."""
    contrast = torch.rand((), generator=generator) * 3 + 0.2
    colour = torch.randn(1, 3, 1, 1, generator=generator)
    return torch.randn(1, 3, 32, 32, generator=generator) * contrast + colour


def _tree(shape: int, generator: torch.Generator) -> Tree:
    """A binary tree of seven leaves or so; as many shapes as there are."""

    def make(depth: int, bits: int) -> Tree:
        word = torch.randint(1, 100, (1,), generator=generator)
        children = []
        if depth > 0:
            children = [
                make(depth - 1 - (bits >> i & 1), bits >> 2) for i in range(2)
            ]
        return Tree(word, children)

    return make(3, shape)


def make_programs() -> list[Program]:
    """Returns the five, weights drawn from one seed, in eval mode."""
    torch.manual_seed(0)
    programs = [
        Program(
            "LSTM",
            LoopedLstm(32, 10),
            lambda g: (torch.randn(_number(10, 80, g), 1, 32, generator=g),),
            True,
        ),
        Program(
            "seq2seq with attention",
            Seq2Seq(32, 100, 20),
            lambda g: (
                torch.randint(1, 100, (_number(5, 25, g),), generator=g),
            ),
            True,
        ),
        Program(
            "BlockDrop",
            BlockDrop(5),
            lambda g: (_image(g),),
            False,
        ),
        Program(
            "early exit",
            EarlyExit(3, 0.17),
            lambda g: (_image(g),),
            False,
        ),
        Program(
            "Tree-LSTM",
            TreeLstm(32, 100),
            lambda g: (_tree(_number(0, 16, g), g),),
            True,
        ),
    ]
    for program in programs:
        program.module.eval()
    return programs
