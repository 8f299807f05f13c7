"""What tests of pipelines share: a model to train, and how to run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import mica

DIM, HEADS, TOKENS, BATCH, LAYERS = 16, 2, 5, 2, 4
KINDS = ["gpipe", "1f1b", "interleaved", "zb_h1", "zbv"]


class Layer(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.norm1 = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.norm2 = nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(
            nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM)
        )

    def forward(self, x: Tensor) -> Tensor:
        heads = (*x.shape[:-1], HEADS, DIM // HEADS)
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.view(heads).transpose(1, 2) for part in (q, k, v))
        h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(h.transpose(1, 2).reshape(x.shape)))
        return x + self.drop(self.mlp(self.norm2(x)))


class Net(nn.Module):
    """Logits f32[batch, tokens, 11] of tokens i64[batch, tokens], each 0..10.

    Args:
      is_tied: The head's weight is the embedding's.
      dropout: The chance of each number of a layer's parts to be dropped.
    """

    def __init__(self, is_tied: bool = False, dropout: float = 0) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, DIM)
        self.layers = nn.ModuleList([Layer(dropout) for _ in range(LAYERS)])
        self.head = nn.Linear(DIM, 11)
        if is_tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Trained:
    """A model, its captured step on one micro-batch, and its start.

    Args:
      optimizer: "adamw" or "sgd".
      micro_batches: By how many the loss is divided.
      is_tied: As of Net.
      dropout: As of Net.
      clip: What the gradients' global norm is at most.
    """

    def __init__(
        self,
        optimizer: str,
        micro_batches: int,
        is_tied: bool = False,
        dropout: float = 0,
        clip: float | None = None,
    ) -> None:
        torch.manual_seed(7)
        model = Net(is_tied, dropout)
        params = list(model.parameters())
        opt = (
            torch.optim.AdamW(params, lr=0.02)
            if optimizer == "adamw"
            else torch.optim.SGD(params, lr=0.1, momentum=0.9)
        )

        def step(tokens: Tensor, labels: Tensor) -> Tensor:
            opt.zero_grad()
            logits = model(tokens).flatten(0, 1)
            loss = nn.functional.cross_entropy(logits, labels.flatten())
            (loss / micro_batches).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            opt.step()
            return loss.detach()

        def learn(parts: Iterable[tuple[Tensor, Tensor]], count: int) -> None:
            opt.zero_grad()
            for tokens, labels in parts:
                logits = model(tokens).flatten(0, 1)
                loss = nn.functional.cross_entropy(logits, labels.flatten())
                (loss / count).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            opt.step()

        def eager_step(fed: Mapping[str, Tensor]) -> None:
            """One step over all micro-batches at once, as a user writes it."""
            learn([(fed["tokens"], fed["labels"])], 1)

        def accumulated_step(fed: Mapping[str, Tensor]) -> None:
            """One step, micro-batch after micro-batch, as a user writes it."""
            parts = zip(
                fed["tokens"].split(BATCH),
                fed["labels"].split(BATCH),
                strict=True,
            )
            learn(parts, micro_batches)

        self.eager_step = eager_step
        self.accumulated_step = accumulated_step
        example = torch.zeros(BATCH, TOKENS, dtype=torch.long)
        self.program = mica.capture(step, (example, example.clone()))
        self.start = {
            name: tensor.detach().clone()
            for name, tensor in self.program.tensors.items()
        }

    def restart(self) -> None:
        with torch.no_grad():
            for name, tensor in self.program.tensors.items():
                tensor.copy_(self.start[name])

    def state(self) -> dict[str, Tensor]:
        return {
            name: tensor.detach().clone()
            for name, tensor in self.program.tensors.items()
        }


def feeds(micro_batches: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (micro_batches * BATCH, TOKENS)
    return {
        name: torch.randint(0, 11, shape, generator=generator)
        for name in ("tokens", "labels")
    }


def assert_same(got: Mapping[str, Tensor], want: Mapping[str, Tensor]) -> None:
    assert got.keys() == want.keys()
    for name, tensor in got.items():
        assert torch.equal(tensor, want[name]), name


def run(
    trained: Trained, schedule: mica.Schedule, fuse: bool = True, **options: Any
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Three steps from the start: the last losses, and what they left."""
    trained.restart()
    torch.manual_seed(1)
    executor = mica.Executor("cpu", num_threads=1, fuse=fuse)
    for number in range(3):
        results = executor.run(
            trained.program,
            feeds(schedule.num_micro_batches, number),
            schedule=schedule,
            **options,
        )
    return [losses[0] for losses in results], trained.state()


# Pipelines that take a single micro-batch.
ONE_MICRO_BATCH = (("gpipe", 1), ("1f1b", 3), ("zbv", 2))


def assert_as_uncut(
    trained: Trained, kind: str, devices: Iterable[int], fuse: bool
) -> None:
    """Four micro-batches in a pipeline are those of one device, bit for bit."""
    uncut = mica.Schedule("gpipe", devices=1, micro_batches=4)
    want_losses, want = run(trained, uncut, fuse)
    generator = torch.get_rng_state()
    for count in devices:
        schedule = mica.Schedule(kind, devices=count, micro_batches=4)
        losses, state = run(trained, schedule, fuse)
        assert_same(state, want)
        assert all(map(torch.equal, losses, want_losses))
        assert torch.equal(torch.get_rng_state(), generator)


def assert_as_program(
    trained: Trained, pipelines: Iterable[tuple[str, int]], fuse: bool
) -> None:
    """One micro-batch in pipelines is the Program itself, bit for bit."""
    trained.restart()
    torch.manual_seed(1)
    executor = mica.Executor("cpu", num_threads=1, fuse=fuse)
    for number in range(3):
        (loss,) = executor.run(trained.program, feeds(1, number))
    want, generator = trained.state(), torch.get_rng_state()
    for kind, devices in pipelines:
        schedule = mica.Schedule(kind, devices=devices, micro_batches=1)
        losses, state = run(trained, schedule, fuse)
        assert_same(state, want)
        assert torch.equal(losses[0], loss)
        assert torch.equal(torch.get_rng_state(), generator)
