#!/usr/bin/env python3
"""What do repeated layers cost, and how much of real models is repeated?

Without arguments: a stack of transformer blocks, hidden size 64, 2 sequences of
16 tokens, float32, forward and backward, once with few blocks and once with
four times as many. For each stack, one thread:

  cold_s      the first two compiled calls less two warm eager calls
  analysis_ms what the engine took from the Program to its Plan
  step        a compiled step's time by an eager one's, rounds interleaved
  shared      the share of ops after fusion that are part of repeated layers

Each stack is measured in a process of its own. With --recompute: a stack of
causal blocks, hidden size 256, 8 sequences of 512 tokens, a whole step with
SGD, with each block computed again in the backward pass
(torch.utils.checkpoint) and without: the arena of both, and their times; it
takes 0.35 GB a block, most for what eager keeps in the watched run. With
--models: the share of
repeated layers' ops in models of transformers, timm and torchvision, of small
sizes and random weights, for inference and a step with AdamW; no mark tells
where their layers are.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import mica
from bench_common import add_json_flag, interleave, ratios, report, spread
from vision_operators import define_vision_operators

HIDDEN, HEADS, SEQUENCES, TOKENS = 64, 4, 2, 16


class Block(nn.Module):
    """A transformer block that normalises what goes into each half."""

    def __init__(self, hidden: int = HIDDEN, is_causal: bool = False) -> None:
        """Makes the layers."""
        super().__init__()
        self.is_causal = is_causal
        self.before = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(2)])
        self.qkvo = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(4)])
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes and returns float32 [sequences, tokens, hidden]."""
        h = self.before[0](x)
        q, k, v = (
            layer(h).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer in self.qkvo[:3]
        )
        h = nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.is_causal
        )
        x = x + self.qkvo[3](h.transpose(1, 2).flatten(2))
        h = nn.functional.gelu(self.up(self.before[1](x)))
        result: torch.Tensor = x + self.down(h)
        return result


def stack_step(blocks: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Returns a forward and backward pass through so many blocks."""
    torch.manual_seed(0)
    net = nn.Sequential(*[Block() for _ in range(blocks)])
    x = torch.randn(SEQUENCES, TOKENS, HIDDEN)

    parameters = list(net.parameters())

    def step() -> tuple[torch.Tensor, ...]:
        loss = net(x).square().mean()
        return loss.detach(), *torch.autograd.grad(loss, parameters)

    return step


def decoder_step(blocks: int, recomputes: bool) -> Callable[[], torch.Tensor]:
    """Returns a step that trains so many causal blocks."""
    torch.manual_seed(0)
    net = nn.Sequential(*[Block(256, is_causal=True) for _ in range(blocks)])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(8, 512, 256)

    def step() -> torch.Tensor:
        h = x
        for block in net:
            if recomputes:
                h = checkpoint(block, h, use_reentrant=False)
            else:
                h = block(h)
        loss = h.square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return step


def measure_recompute(blocks: int, rounds: int) -> dict[str, Any]:
    """Measures a decoder's step with recompute and without."""
    steps = {
        name: mica.compile(decoder_step(blocks, recomputes))
        for name, recomputes in (("kept", False), ("recomputed", True))
    }
    losses: dict[str, list[float]] = {}
    for name, step in steps.items():
        losses[name] = [step().item() for _ in range(3)]
    timed = interleave(dict(steps), rounds, 1)
    arenas = {}
    for name, step in steps.items():
        explanation = mica.explain(step)
        # The first call finds no gradients: a record of its own.
        graph = max(explanation.graphs, key=lambda found: found.hits)
        if graph.hits < rounds:
            raise RuntimeError(f"{name}: not one graph:\n{explanation}")
        arenas[name] = graph.arena_bytes
    apart = [
        abs(a - b) / abs(a)
        for a, b in zip(losses["kept"], losses["recomputed"], strict=True)
    ]
    return {
        "blocks": blocks,
        "arena_bytes": arenas,
        "arena_ratio": round(arenas["recomputed"] / arenas["kept"], 4),
        "seconds": {name: spread(times) for name, times in timed.items()},
        "time_ratio": spread(ratios(timed["recomputed"], timed["kept"])),
        "losses_apart": max(apart),
    }


def seconds_of(call: Callable[[], object]) -> float:
    """Returns the seconds that one call took."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def analysis_ms(path: Path) -> float:
    """Returns the milliseconds of all Plans' making in a trace."""
    total = 0.0
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("ph") == "X" and event["name"].startswith("plan @"):
            total += event["dur"] / 1000
    return total


def shared_of(explanation: Any) -> float:
    """Returns the share of ops that are part of repeated layers."""
    graphs = explanation.graphs
    ops = sum(len(graph.ops) for graph in graphs)
    return sum(g.num_repeated for g in graphs) / ops if ops else 0.0


def measure_stack(blocks: int, rounds: int) -> dict[str, Any]:
    """Measures one stack; see the module's text."""
    torch.set_num_threads(1)
    eager = stack_step(blocks)
    # What a process sets up once is no layer's.
    warm = mica.compile(stack_step(1))
    for _ in range(3):
        warm()
        eager()
    eager_s = statistics.median(seconds_of(eager) for _ in range(5))
    compiled = mica.compile(stack_step(blocks))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with mica.trace(path):
            first = seconds_of(compiled)
        second = seconds_of(compiled)
        plan_ms = analysis_ms(path)
    timed = interleave({"eager": eager, "Mica": compiled}, rounds, 3)
    explanation = mica.explain(compiled)
    if len(explanation.graphs) != 1 or explanation.hits < rounds:
        raise RuntimeError(f"{blocks} blocks weren't one graph:\n{explanation}")
    return {
        "blocks": blocks,
        "eager_ms": spread(timed["eager"], 1e3),
        "mica_ms": spread(timed["Mica"], 1e3),
        "step": spread(ratios(timed["Mica"], timed["eager"])),
        "cold_s": round(first + second - 2 * eager_s, 4),
        "analysis_ms": round(plan_ms, 3),
        "shared": round(shared_of(explanation), 4),
    }


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, Any]]]]:
    """Yields names, and what makes a model and its input."""
    define_vision_operators()
    import timm  # Late: see bench_common.
    import torchvision  # type: ignore[import-untyped]
    import transformers as tf

    ids = torch.randint(0, 1000, (2, 16))
    sizes = {"hidden_size": 64, "num_attention_heads": 4}
    depth = {"num_hidden_layers": 12, "intermediate_size": 256}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    yield (
        "BERT",
        lambda: (
            tf.BertModel(tf.BertConfig(**sizes, **depth, **still)),
            ids,
        ),
    )
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    yield (
        "GPT-2",
        lambda: (
            tf.GPT2Model(
                tf.GPT2Config(
                    n_embd=64, n_layer=12, n_head=4, use_cache=False, **quiet
                )
            ),
            ids,
        ),
    )
    image = torch.randn(2, 3, 64, 64)
    yield (
        "ViT",
        lambda: (
            tf.ViTModel(tf.ViTConfig(image_size=64, **sizes, **depth, **still)),
            image,
        ),
    )
    yield (
        "T5 encoder",
        lambda: (
            tf.T5EncoderModel(
                tf.T5Config(
                    d_model=64,
                    d_kv=16,
                    d_ff=256,
                    num_layers=12,
                    num_heads=4,
                    dropout_rate=0.0,
                )
            ),
            ids,
        ),
    )
    yield (
        "Llama",
        lambda: (
            tf.LlamaModel(
                tf.LlamaConfig(
                    vocab_size=1000, use_cache=False, **sizes, **depth
                )
            ),
            ids,
        ),
    )
    yield "ConvNeXt-T", lambda: (timm.create_model("convnext_tiny"), image[:1])
    yield "ResNet-152", lambda: (torchvision.models.resnet152(), image[:1])
    yield "DenseNet-201", lambda: (torchvision.models.densenet201(), image[:1])


def result_of(output: Any) -> torch.Tensor:
    """Returns the tensor that a model's output is about."""
    hidden = getattr(output, "last_hidden_state", output)
    if not isinstance(hidden, torch.Tensor):
        raise TypeError(f"a tensor is wanted, got {type(hidden).__name__}")
    return hidden


def measure_model(
    name: str, make: Callable[[], tuple[nn.Module, Any]]
) -> dict[str, Any]:
    """Returns what is shared of a model's inference and training step."""
    torch.manual_seed(0)
    model, x = make()
    forward: Callable[[torch.Tensor], torch.Tensor] = mica.compile(
        lambda v: result_of(model.eval()(v))
    )
    with torch.no_grad():
        for _ in range(2):
            forward(x)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(v: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = result_of(model(v)).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    model.train()
    compiled = mica.compile(step)
    for _ in range(3):
        compiled(x)
    found: dict[str, Any] = {"model": name}
    for what, callable_ in (("inference", forward), ("training", compiled)):
        explanation = mica.explain(callable_)
        found[what] = round(shared_of(explanation), 3)
        found[f"{what}_ops"] = sum(len(g.ops) for g in explanation.graphs)
        found[f"{what}_layers"] = [
            f"{calls} x {layer} ({ops} ops)"
            for graph in explanation.graphs
            for layer, ops, calls in graph.functions
        ]
    return found


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", action="store_true")
    add_json_flag(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.models:
        found = []
        for name, make in models():
            found.append(measure_model(name, make))
            print(
                f"{name}: inference {found[-1]['inference']:.1%} of "
                f"{found[-1]['inference_ops']} ops, training "
                f"{found[-1]['training']:.1%} of {found[-1]['training_ops']}",
                flush=True,
            )
        report(arguments.json, {"models": found})
        return 0
    if arguments.recompute:
        report(
            arguments.json,
            measure_recompute(arguments.blocks, arguments.rounds),
        )
        return 0
    stacks = []
    for blocks in (arguments.blocks, 4 * arguments.blocks):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            stacks.append(pool.apply(measure_stack, (blocks, arguments.rounds)))
        print(stacks[-1], flush=True)
    few, many = stacks
    report(
        arguments.json,
        {
            "stacks": stacks,
            "analysis_ratio": round(
                many["analysis_ms"] / few["analysis_ms"], 3
            ),
        },
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
