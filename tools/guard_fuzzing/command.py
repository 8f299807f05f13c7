"""The command's options, its worker processes, and what it prints."""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import multiprocessing
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from guard_fuzzing.explore import Explorer, Find, Tally, minimise
from guard_fuzzing.process import Process
from guard_fuzzing.worlds import EAGERS, Turns, start_process, tell_turns

_PATIENCE_S = 120.0
_PATIENCE_ASLEEP_S = 3.0  # Of a worker that waits for what it holds itself.
_BROKEN_ENOUGH = 20  # Workers in a row, each by its first program.
_PROGRAMS_A_WORKER = 4000  # Nothing collects what they leave behind.
_MOST_MEMORY = 8 << 30  # Bytes of addresses: who asks for more has an error.


@dataclasses.dataclass
class Worker:
    """A process that runs every so manyth program.

    Attributes:
      process: The child.
      pipe: Where it tells what it did.
      turns: Whose code it runs.
      number: The program that it runs.
      since: When it said so.
      used: Ticks of a processor that it had used when it was looked at.
      awake: When that was last more than before.
      begun: How many programs it has begun.
      why: The error that ended it.
    """

    process: Any
    pipe: Connection
    turns: Turns
    number: int
    since: float
    used: int = 0
    awake: float = 0.0
    begun: int = 0
    why: str = ""

    def sleeps(self, now: float) -> bool:
        """True if it has long waited for something, by its own fault.

        Nothing that it does takes long without a processor, but for a message
        that its parent reads at once, and pages that are read from a disk.
        """
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        fields = stat.rpartition(")")[2].split()
        used = int(fields[11]) + int(fields[12])
        if used != self.used or fields[0] != "S" or not self.awake:
            self.used, self.awake = used, now
        return now - self.awake > _PATIENCE_ASLEEP_S


def _work(
    pipe: Connection,
    turns: Turns,
    seed: int,
    first: int,
    stride: int,
    pairs: int,
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable()  # A process that crashes tells where.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    start_process()
    tell_turns(turns)
    explorer = Explorer(seed, Process())
    number = first
    last = first + stride * _PROGRAMS_A_WORKER
    while explorer.tally.pairs < pairs and number < last:
        pipe.send(("begin", number))
        try:
            find = explorer.run(number)
        except BaseException:
            pipe.send(("tally", explorer.tally))
            pipe.send(("broken", traceback.format_exc()))
            raise
        if find is not None:
            pipe.send(("find", find))
        if number // stride % 16 == 0:
            pipe.send(("tally", explorer.tally))
        number += stride
    pipe.send(("tally", explorer.tally))
    pipe.send(("end", number))


class Run:
    """A run of several workers, and what they found."""

    def __init__(self, seed: int, pairs: int, jobs: int) -> None:
        self.seed, self.pairs, self.jobs = seed, pairs, jobs
        self.finds: dict[str, Find] = {}
        self.broken: list[dict[str, Any]] = []
        self.ended_by_eager: list[int] = []
        self._broken_at_once = 0
        self._tallies: dict[int, Tally] = {}
        self._done = Tally()
        self._left = [-(-pairs // jobs)] * jobs
        self.told: Callable[[Find], None] = lambda find: None
        self._context = multiprocessing.get_context("fork")
        self._workers: dict[int, Worker] = {}

    def total(self) -> Tally:
        """What all workers did so far."""
        sums = dataclasses.asdict(self._done)
        for tally in self._tallies.values():
            for name, value in dataclasses.asdict(tally).items():
                sums[name] += value
        return Tally(**sums)

    def go(self, quiet: bool) -> None:
        """Runs to the end."""
        for index in range(self.jobs):
            self._start(index, index)
        told = time.perf_counter()
        while self._workers:
            pipes = {w.pipe: i for i, w in self._workers.items()}
            for ready in wait(list(pipes), timeout=0.5):
                self._hear(pipes[ready])  # type: ignore[index]
            self._watch()
            if not quiet and time.perf_counter() - told > 10:
                told = time.perf_counter()
                print(f"… {_sentence(self.total())}", file=sys.stderr)

    def stop(self) -> None:
        """Ends the workers, whose last programs don't count."""
        for worker in self._workers.values():
            worker.process.kill()
            worker.process.join()
        self._workers.clear()

    def _start(self, index: int, first: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        turns: Turns = self._context.RawValue("i", 0)
        done = self._tallies.pop(index, Tally())
        for name, value in dataclasses.asdict(done).items():
            setattr(self._done, name, getattr(self._done, name) + value)
        self._left[index] -= done.pairs
        if self._left[index] <= 0:
            return
        process = self._context.Process(
            target=_work,
            args=(
                theirs,
                turns,
                self.seed,
                first,
                self.jobs,
                self._left[index],
            ),
            daemon=True,
        )
        process.start()
        theirs.close()
        self._workers[index] = Worker(
            process, ours, turns, first, time.perf_counter()
        )

    def _hear(self, index: int) -> None:
        worker = self._workers[index]
        # A worker may end in the midst of a message.
        try:
            what, value = worker.pipe.recv()
        except Exception:
            what, value = "gone", None
        # No worker is made where an exception is handled: it would be the
        # worker's, too.
        if what == "gone":
            worker.process.kill()
            worker.process.join()
            why = worker.why or f"ended with {worker.process.exitcode}"
            self._give_up(index, why)
        elif what == "begin":
            worker.number, worker.since = value, time.perf_counter()
            worker.begun += 1
        elif what == "tally":
            self._tallies[index] = value
        elif what == "broken":
            worker.why = value
        elif what == "find":
            if value.key in self.finds:
                self.finds[value.key].count += 1
            else:
                self.finds[value.key] = value
                self.told(value)
        else:
            worker.process.join()
            del self._workers[index]
            self._start(index, value)

    def _watch(self) -> None:
        now = time.perf_counter()
        for index, worker in list(self._workers.items()):
            if now - worker.since > _PATIENCE_S or (
                now - worker.since > _PATIENCE_ASLEEP_S and worker.sleeps(now)
            ):
                worker.process.kill()
                worker.process.join()
                self._give_up(index, "hangs")

    def _give_up(self, index: int, why: str) -> None:
        """A program ended its process, or hangs, and the next begins.

        That is a find, unless it was in eager's hands.
        """
        worker = self._workers.pop(index)
        if worker.turns.value == EAGERS and not worker.why:
            self.ended_by_eager.append(worker.number)
            self._done.abandoned += 1
            why += ", in eager"
        else:
            self.broken.append({"number": worker.number, "why": why})
        print(f"program {worker.number}: {why}", file=sys.stderr)
        at_once = worker.begun <= 1
        self._broken_at_once = self._broken_at_once + 1 if at_once else 0
        if self._broken_at_once < _BROKEN_ENOUGH:
            self._start(index, worker.number + self.jobs)


def _print_find(find: Find) -> None:
    print(f"=== {find.case.number}: {find.key}\n{find.where}\n{find.case}\n")
    sys.stdout.flush()


def _sentence(tally: Tally) -> str:
    return (
        f"{tally.pairs} pairs, {tally.programs} programs, {tally.hits} of "
        f"{tally.calls} calls served, {tally.refused} programs refused, "
        f"{tally.differences} with a difference"
    )


def _only(seed: int, number: int) -> int:
    """Prints one program, its steps and its first difference, minimised."""
    start_process()
    process = Process()
    explorer = Explorer(seed, process)
    case, rng = explorer.case(number)
    found = explorer.explore(case, rng)
    print(case)
    print(f"--- {found or 'no difference'}; {_sentence(explorer.tally)}")
    if found is None:
        return 0
    small, difference = minimise(case, process, seconds=60.0)
    print(f"--- minimised: {difference or 'does not repeat by itself'}")
    print(small)
    return 1


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one program, with its text")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--causes", action="store_true", help="print each find")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.only is not None:
        return _only(options.seed, options.only)
    begun = time.perf_counter()
    run = Run(options.seed, options.pairs, options.jobs)
    if options.causes:
        run.told = _print_find
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        run.go(quiet=options.json and not sys.stderr.isatty())
    except KeyboardInterrupt:
        run.stop()
    tally = run.total()
    finds = sorted(run.finds.values(), key=lambda find: -find.count)
    seconds = time.perf_counter() - begun
    print(f"{_sentence(tally)}, {tally.pairs / seconds:.0f} pairs/s")
    for broken in run.broken:
        print(f"program {broken['number']} {broken['why']}")
    if options.json:
        print(json.dumps(_summary(options.seed, tally, finds, run, seconds)))
    return 1 if tally.differences or run.broken else 0


def _summary(
    seed: int, tally: Tally, finds: list[Find], run: Run, seconds: float
) -> dict[str, Any]:
    found = dataclasses.asdict(tally)
    found["differences"] += len(run.broken)
    found["seed"] = seed
    found["seconds"] = round(seconds, 1)
    found["broken"] = run.broken
    found["ended_by_eager"] = run.ended_by_eager
    found["finds"] = [
        {
            "key": find.key,
            "seed": seed,
            "number": find.case.number,
            "count": find.count,
            "where": find.where,
        }
        for find in finds
    ]
    return found
