"""Explores one seed: makes cases, takes random steps, minimises differences."""

from __future__ import annotations

import contextvars
import dataclasses
import random
import time
from collections.abc import Iterator
from typing import Any

from guard_fuzzing.calls import STYLE_WORDS, STYLES
from guard_fuzzing.case import Case, Line, Step
from guard_fuzzing.compare import Difference
from guard_fuzzing.grammar import Grammar
from guard_fuzzing.mutations import Mutator
from guard_fuzzing.process import Process
from guard_fuzzing.relevance import choose
from guard_fuzzing.trial import Abandoned, Trial, replay

SELF_TRIES = 5  # Of a program that may differ from itself.
PAIRS_A_PROGRAM = 16
_X = [
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.tensor([-1.0, 0.5, 0.0])",
    "torch.tensor([1.0, 2.0, 3.0], requires_grad=True)",
    "torch.ones(2, 3)",
    "torch.ones(3, dtype=torch.float64)",
    "torch.ones(3, 2).t()",
    "T0",
    "P",
    "T0[:]",
    "torch.tensor([1, 2, 3])",
    "torch.ones(2)",
    "LAST",
    "nn.Parameter(torch.ones(3))",
    "torch.ones(3).as_subclass(Loud)",
    "torch.zeros(3)",
    "2.0",
]
_OTHERS = {
    "a": [
        *["numpy.array([1.0, 2.0, 3.0], 'f')"] * 2,
        *["numpy.array([3.0, 1.0, 2.0], 'f')"] * 2,
        "ARR",
        "ARR[:]",
        "T0.numpy()",
        "numpy.arange(6.0)[::2].astype('f')",
        "numpy.arange(6, dtype='f')[::2]",
        "numpy.array([1.0, 2.0, 3.0])",
        "numpy.array([1, 2, 3])",
        "numpy.array([[1.0, 2.0, 3.0]], 'f')",
        "numpy.ones(4, 'f')",
        "numpy.broadcast_to(numpy.float32(2), (3,))",
        "numpy.array([3.0, 2.0, 1.0], 'f')[::-1]",
    ],
    "z": ["torch.ones(3)", "torch.ones(3)", "T0", "T0[:]", "P", "x", "2.0"],
    "c": ["SPECIAL", "SPECIAL", "Config()", "Config()", "A()", "Config(3.0)"],
    "n": ["1", "2", "3", "5", "2.0", "300", "True"],
    "d": ["[1.0]", "{'a': 1.0}", "None", "LIST"],
}


@dataclasses.dataclass
class Find:
    """A difference, minimised.

    Attributes:
      key: What the minimised case is made of, sorted.
      case: The minimised case.
      where: The first difference's place and text.
      count: How many programs have it.
    """

    key: str
    case: Case
    where: str
    count: int = 1


@dataclasses.dataclass
class Tally:
    """What a run did."""

    programs: int = 0
    pairs: int = 0
    calls: int = 0
    hits: int = 0
    in_pieces: int = 0
    refused: int = 0
    raising: int = 0
    abandoned: int = 0
    differences: int = 0


class Explorer:
    """Runs the programs of one seed, in one process."""

    def __init__(self, seed: int, process: Process) -> None:
        self.seed, self.process = seed, process
        self.tally = Tally()
        self.finds: dict[str, Find] = {}
        self.minimising = 0.0
        self.begun = time.perf_counter()
        self._queries = [
            f"int({f.read} == {f.value})" for f in process.flags
        ] + [f.read for f in process.flags if f.value in ("True", "False")]

    def case(self, number: int) -> tuple[Case, random.Random]:
        """A program without steps, and where its steps come from."""
        rng = random.Random(f"{self.seed}/{number}")
        case = Grammar(rng, self._queries).make(self.seed, number)
        case.exact = case.exact and not case.frozen
        return case, rng

    def run(self, number: int) -> Find | None:
        """Runs one program; returns its difference if there is one."""
        case, rng = self.case(number)
        self.tally.programs += 1
        found = contextvars.copy_context().run(self.explore, case, rng)
        if found is None:
            return None
        self.tally.differences += 1
        return self._keep(case, found)

    def explore(self, case: Case, rng: random.Random) -> Difference | None:
        """Takes random steps, which the case keeps, up to a difference."""
        trial = None
        try:
            trial = Trial(case, self.process)
            for step in self._steps(case, rng, trial):
                case.steps.append(step)
                trial.take(step)
        except Difference as found:
            return found
        except Abandoned:
            self.tally.abandoned += 1
            return None
        finally:
            self.process.restore()
            if trial is not None:
                self._count(trial)
        return None

    def _count(self, trial: Trial) -> None:
        report = trial.report()
        self.tally.calls += trial.calls
        self.tally.hits += report["hits"]
        self.tally.in_pieces += report["split_calls"]
        self.tally.refused += bool(report["refusals"])
        self.tally.raising += trial.raised == trial.calls

    def _steps(
        self, case: Case, rng: random.Random, trial: Trial
    ) -> Iterator[Step]:
        usual = {**_arguments(rng, case), "x": _X[0]}
        for _ in range(3):
            yield Step("call", _text_of(usual), "call")
        pairs = PAIRS_A_PROGRAM
        if trial.raised == trial.calls or not trial.hits():
            pairs = 1
        mutator = Mutator(rng, self.process, case)
        hits, idle = 0, 0
        for _ in range(pairs):
            calls = rng.choice((3, 4, 4)) if pairs > 1 else 2
            style = "plain"
            if rng.random() < 0.14:
                style = choose(rng, STYLES, mutator.asked, _style_words)
            elif rng.random() < 0.2:
                usual, calls = _arguments(rng, case, usual), calls + 1
            else:
                change = mutator.choose(trial.eager)
                if case.frozen and _past_torch(change.text):
                    continue
                yield change
            text = usual
            if rng.random() < 0.35:
                text = _arguments(rng, case, usual)
            for call in range(calls):
                now = _text_of(usual if call else text)
                yield Step("call", now, "call", style)
            self.tally.pairs += 1
            before, hits = hits, trial.hits()
            idle = 0 if hits > before else idle + 1
            if idle == 2:  # Nothing is served that could be wrong.
                return

    def _keep(self, case: Case, found: Difference) -> Find | None:
        begin = time.perf_counter()
        if self.minimising > 0.4 * (begin - self.begun):
            known = self._like_known(case)
            if known is not None:
                known.count += 1
                return known
        small, difference = minimise(case, self.process)
        self.minimising += time.perf_counter() - begin
        if _differs_from_itself(small, self.process):
            self.tally.differences -= 1
            self.tally.abandoned += 1
            return None
        if difference is None:  # It needs what earlier programs left.
            find = Find("not repeated", case, str(found))
        else:
            key = " | ".join(sorted(small.tags() - {"call"}))
            find = Find(key, small, str(difference))
        if find.key in self.finds:
            self.finds[find.key].count += 1
        else:
            self.finds[find.key] = find
        return find

    def _like_known(self, case: Case) -> Find | None:
        """The most frequent find all of whose parts a case has."""
        tags = case.tags()
        alike = [f for f in self.finds.values() if f.case.tags() <= tags]
        return max(alike, key=lambda find: find.count, default=None)


def _differs_from_itself(case: Case, process: Process) -> bool:
    """True if eager twins differ: a program computes with an address, say."""
    tries = range(SELF_TRIES)
    return any(replay(case, process, compiles=False) for _ in tries)


def _style_words(style: str) -> str:
    return STYLE_WORDS.get(style, "")


def _past_torch(text: str) -> bool:
    """True for a write that a frozen program's user promised not to make."""
    return any(word in text for word in (".data", "numpy", "set_(", "swap"))


def _argument(rng: random.Random, name: str) -> str:
    """A text for a parameter; empty for its default."""
    if name == "x":
        return rng.choice(_X)
    if name not in _OTHERS or rng.random() > 0.8:
        return ""
    return f"{name}={rng.choice(_OTHERS[name])}"


def _arguments(
    rng: random.Random, case: Case, like: dict[str, str] | None = None
) -> dict[str, str]:
    """A call's arguments by name; mostly those of `like` but for one."""
    names = [param.partition("=")[0] for param in case.params]
    if like is None or rng.random() < 0.3:
        return {name: _argument(rng, name) for name in names}
    name = rng.choice(names)
    return {**like, name: _argument(rng, name)}


def _text_of(arguments: dict[str, str]) -> str:
    if arguments.get("z") == "z=x":  # The same tensor twice.
        return "*[T0.detach().clone()] * 2"
    return ", ".join(text for text in arguments.values() if text)


def _without(lines: list[Any], begin: int, count: int) -> list[Any]:
    return lines[:begin] + lines[begin + count :]


def minimise(
    case: Case, process: Process, seconds: float = 6.0
) -> tuple[Case, Difference | None]:
    """Drops steps and lines as long as a difference stays.

    Returns:
      The smaller case and its difference, None if it doesn't happen again.
    """
    best = dataclasses.replace(case, steps=list(case.steps))
    found = replay(best, process)
    end = time.perf_counter() + seconds
    if found is None:
        return best, None

    def attempt(**changes: Any) -> bool:
        nonlocal best, found
        smaller = dataclasses.replace(best, **changes)
        difference = replay(smaller, process)
        if difference is None:
            return False
        best, found = smaller, difference
        return True

    progress = True
    while progress and time.perf_counter() < end:
        progress = False
        for name in ("steps", "body", "setup", "results"):
            size = max(1, len(getattr(best, name)) // 2)
            while size:
                at = len(getattr(best, name)) - size
                while at >= 0 and time.perf_counter() < end:
                    lines = getattr(best, name)
                    if attempt(**{name: _without(lines, at, size)}):
                        progress = True
                    at -= size
                size //= 2
        progress |= _simplify(best, attempt)
    return best, found


def _simplify(best: Case, attempt: Any) -> bool:
    progress = False
    if best.form != "function":
        progress |= attempt(form="function")
    for i, step in enumerate(best.steps):
        if step.kind == "call" and step.style != "plain":
            plain = dataclasses.replace(step, style="plain")
            progress |= attempt(
                steps=[*best.steps[:i], plain, *best.steps[i + 1 :]]
            )
            break
    for i, line in enumerate(best.body):
        inner = line.tag.rpartition(" << ")[2]
        if inner != line.tag and "\n" in line.text:
            last = line.text.split("\n")[-1].strip()
            progress |= attempt(
                body=[*best.body[:i], Line(last, inner), *best.body[i + 1 :]]
            )
            break
    return progress
