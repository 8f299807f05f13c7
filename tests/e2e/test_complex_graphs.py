"""Programs with complex tensors as graphs for others."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import report
from e2e.capture.test_complex import c, same_bits

import mica


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def test_graphs_for_other_compilers():
    def program(a, b):
        b.mul_(1j)
        z = (a @ b.mH).conj()
        return z.abs(), z.imag, torch.fft.fft(a, norm="ortho"), z * (1 - 2j)

    def inputs(i):
        return c(i), c(i + 9)

    module = mica.to_fx(program, inputs(0))
    for i in range(2):
        mine, twin = inputs(i), inputs(i)
        same_bits(list(module(*mine)), list(program(*twin)))
        same_bits(mine, twin)

    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module

    compiled = mica.compile(program, backend=backend)
    for i in range(3):
        mine, twin = inputs(i), inputs(i)
        same_bits(compiled(*mine), program(*twin))
        same_bits(mine, twin)
    for i in range(3):
        a, b = inputs(i), inputs(i)
        same_bits(
            compiled(a[0].conj(), a[1].conj()),
            program(b[0].conj(), b[1].conj()),
        )
        same_bits(a, b)
    assert len(graphs) == 2 and report(compiled).hits == 4


def test_what_leaves_capture_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="lazily conjugated"):
        mica.to_fx(lambda a: a * 2, (c(0).conj(),))
    with pytest.raises(NotImplementedError, match="lazily conjugated"):
        mica.capture(lambda a: a * 2, (c(0).conj(),))
    with pytest.raises(NotImplementedError, match="lazy view"):
        mica.capture(lambda a: (a * 2).conj(), (c(0),))
    program = mica.capture(lambda a: torch.fft.fft(a) * 1j, (c(0),))
    text = str(program)
    assert "aten._fft_c2c" in text and "complex(0.0,1.0) : c128" in text
    got = mica.Executor().run(program, feed={program.inputs[0][0]: c(1)})
    same_bits(list(got), [torch.fft.fft(c(1)) * 1j])
