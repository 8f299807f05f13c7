"""Arguments that are instances which keep state: taken apart from the start."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same

import mica

pytestmark = pytest.mark.once("counts what is watched")
ROW = torch.arange(3.0)


class Layer:
    def __init__(self):
        self.rows = None

    def add(self, row):
        new = row[None]
        self.rows = new if self.rows is None else torch.cat([self.rows, new])
        return self.rows


class Cache:
    """As transformers' caches are: layers come with the first call."""

    def __init__(self):
        self.layers, self.made_of, self.calls = [], Layer, 0

    def add(self, row, layer):
        while len(self.layers) <= layer:
            self.layers.append(self.made_of())
        self.calls += 1
        return self.layers[layer].add(row)


def attend(row, cache):
    for layer in range(2):
        row = torch.tanh(cache.add(row, layer).sum(0) + row)
    return row


def test_a_cache_is_another_one_for_each_sequence():
    compiled = mica.compile(attend)
    for _ in range(4):
        mine, plain = Cache(), Cache()
        for step in range(6):
            same(compiled(ROW + step, mine), attend(ROW + step, plain))
            assert mine.calls == plain.calls == 2 * step + 2
            for ours, theirs in zip(mine.layers, plain.layers, strict=True):
                same(ours.rows, theirs.rows)
    told = report(compiled)
    # One without rows, of one row, and two of more of them.
    assert told.captures <= 4, str(told)
    assert told.hits == 24 - told.captures


class Results:
    def __init__(self):
        self.losses, self.last = [], None


def test_who_keeps_results_stays_whole():
    def step(row, results):
        loss = row.square().sum()
        results.losses.append(loss)
        results.last = row * 2
        return loss

    compiled = mica.compile(step)
    mine, plain = Results(), Results()
    for turn in range(8):
        same(compiled(ROW + turn, mine), step(ROW + turn, plain))
        same(mine.losses, plain.losses)
        same(mine.last, plain.last)
    told = report(compiled)
    assert told.hits >= 4, str(told)


class Settings:
    def __init__(self):
        self.scale, self.name = 2, "x"


def test_what_keeps_no_state_is_known_by_itself():
    compiled = mica.compile(lambda row, settings: row * settings.scale)
    settings = Settings()
    for turn in range(4):
        same(compiled(ROW + turn, settings), (ROW + turn) * 2)
    assert report(compiled).captures == 1
    settings.scale = 3
    same(compiled(ROW, settings), ROW * 3)


class Weights:
    def __init__(self):
        self.weight = torch.ones(3, requires_grad=True)
        self.steps = []


def test_what_trains_is_none_such():
    def loss(row, net):
        return (net.weight * row).sum()

    compiled = mica.compile(loss)
    mine, plain = Weights(), Weights()
    with torch.enable_grad():
        for turn in range(4):
            got, want = compiled(ROW + turn, mine), loss(ROW + turn, plain)
            same(got, want)
            got.backward()
            want.backward()
            same(mine.weight.grad, plain.weight.grad)
    assert report(compiled).hits >= 2
