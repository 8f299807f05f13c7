"""The command's options, and what it prints."""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

_BUDGET_S = 3


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, help="this program, printed")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--minimise", type=float, default=40.0, metavar="S")
    parser.add_argument("--finds", help="a folder for programs that differ")
    parser.add_argument(
        "--family", metavar="NAME", help="templates that each program has"
    )
    parser.add_argument(
        "--skip", metavar="REGEX", help="templates that aren't used"
    )
    parser.add_argument(
        "--ignore", metavar="REGEX", help="kinds of differences that are known"
    )
    return parser.parse_args()


options = _options()
os.environ["MICA_LOGS"] = "recompiles"
os.environ["MICA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402

from size_fuzzing import templates  # noqa: E402
from size_fuzzing.case import Case  # noqa: E402
from size_fuzzing.draw import draw  # noqa: E402
from size_fuzzing.forks import LOG_MARK, Died, in_child  # noqa: E402
from size_fuzzing.minimise import (  # noqa: E402
    judge,
    minimise,
    outcome_of,
    script,
)
from size_fuzzing.trial import Outcome, kind_of, run  # noqa: E402


def _reason(line: str) -> str:
    text = line.partition(" fixed: ")[2]
    text = re.sub(r" ?\([^()]*:\d+[^()]*\)", "", text)
    text = re.sub(r"\[[\d,.-]*\]", "[]", text)
    text = re.sub(r"\{[\d,.-]*\}", "{}", text)
    text = re.sub(r"(?<![\w.])-?\d[\d.e+-]*(?![\w.]*\w)", "N", text)
    return re.sub(r"(N,)+N", "N", text)[:120]


def _make(number: int) -> Case:
    if options.skip:
        templates.leave_out(options.skip)
    if options.family:
        templates.PREFERRED.append(options.family)
    return draw(options.seed, number, options.exact, options.train)


def _trial(number: int) -> tuple[Case, Outcome]:
    case = _make(number)
    signal.alarm(_BUDGET_S)
    return case, run(case)


class Totals:
    """What all programs did."""

    def __init__(self) -> None:
        self.sums: collections.Counter[str] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self.finds: dict[str, dict[str, Any]] = {}

    def add(self, outcome: Outcome, log: str) -> None:
        """Counts a program."""
        self.sums["programs"] += 1
        if outcome.error:
            self.sums["not_run"] += 1
        for name in ("calls", "hits", "captures", "refused", "raised"):
            self.sums[name] += getattr(outcome, name)
        few = outcome.captures <= 2 and outcome.refused == 0
        self.sums["programs_at_most_2_captures"] += few
        self.sums["differences"] += bool(outcome.differs)
        reasons = {
            _reason(line) for line in log.splitlines() if LOG_MARK in line
        }
        self.reasons.update(reasons)
        self.sums["programs_with_a_reason"] += bool(reasons)

    def find(self, number: int, case: Case, outcome: Outcome) -> None:
        """Minimises a difference, and tells of it if it is new."""
        if options.ignore and re.search(options.ignore, outcome.differs):
            self.sums["ignored"] += 1
            return
        small = minimise(case, outcome.differs, options.minimise)
        least = outcome_of(small)
        judged = judge(small, least)
        key = kind_of(least.differs) + " | " + _key(small)
        if key in self.finds:
            self.finds[key]["count"] += 1
            return
        self.finds[key] = {
            "number": number,
            "key": key,
            "differs": least.differs,
            "count": 1,
            **judged,
        }
        print(f"=== {options.seed} {number}: {key}\n{least.differs}\n{judged}")
        print(small, flush=True)
        if options.finds:
            folder = Path(options.finds)
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{options.seed:03}_{number:05}.py"
            (folder / name).write_text(script(small, least.differs))


def _key(case: Case) -> str:
    body = " / ".join(case.body)
    body = re.sub(r"\b[xyzv]\d*\b", "t", body)
    body = re.sub(r"-?\b\d+(\.\d+)?\b", "N", body)
    return re.sub(r"\bn\d*\b", "n", body)


def main() -> int:
    """Runs the command."""
    torch.set_num_threads(1)
    if options.train:
        # An optimizer imports it, which takes seconds in each child.
        importlib.import_module("torch._dynamo")
    if options.only is not None:
        case, log = in_child(lambda: _make(options.only), 30)
        print(case)
        try:
            (case, outcome), log = in_child(lambda: _trial(options.only), 30)
        except Died as died:
            print(died.log[-3000:], "died", died.number)
            return 1
        print(log)
        print(outcome)
        if outcome.differs:
            small = minimise(case, outcome.differs, options.minimise)
            least = outcome_of(small)
            print("--- minimised\n", small, least, judge(small, least))
        return int(bool(outcome.differs))
    totals = Totals()
    begun = time.monotonic()
    for number in range(options.first, options.first + options.programs):
        try:
            (case, outcome), log = in_child(
                functools.partial(_trial, number), 20
            )
        except Died as died:
            log = died.log
            outcome = Outcome()
            if died.number == 14:
                totals.sums["slow"] += 1
                continue
            if died.number == 0:
                totals.sums["broken"] += 1
                print(f"program {number}: {log[-2000:]}", file=sys.stderr)
                continue
            try:
                case = in_child(functools.partial(_make, number), 20)[0]
            except Died:
                totals.sums["eager_crashes"] += 1
                continue
            outcome.differs = f"crash: signal {died.number}"
            totals.sums["crashes"] += 1
        totals.add(outcome, log)
        if outcome.differs:
            totals.find(number, case, outcome)
        if not options.json and number % 100 == 99:
            print(dict(totals.sums), file=sys.stderr)
    told: dict[str, Any] = dict(totals.sums)
    told["seconds"] = round(time.monotonic() - begun)
    told["finds"] = list(totals.finds.values())
    for reason, count in totals.reasons.most_common(40):
        print(f"{count:6} {reason}")
    if options.json:
        told["reasons"] = dict(totals.reasons.most_common(60))
        print(json.dumps(told))
    else:
        print(told)
    return int(bool(told["finds"]))
