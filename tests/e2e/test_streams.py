"""What runs on several streams gives the numbers of one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from e2e.branches import Branches, assert_a_fork_is_told
from e2e.training import make_step
from torch import Tensor, nn

import mica


def test_compiled_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, x = Branches(8).eval(), torch.randn(2, 8, 32, 32)
    with torch.no_grad():
        one = mica.compile(model, frozen=True)
        one(x)
        want = one(x)
        monkeypatch.setenv("MICA_NUM_STREAMS", "2")
        many = mica.compile(model, frozen=True)
        many(x)  # Runs eagerly: other kernels.
        for _ in range(19):
            assert torch.equal(many(x), want)
    made = mica.explain(many)
    assert made.hits == 19
    assert made.is_one_graph


def test_a_training_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(streams: str) -> list[Tensor]:
        monkeypatch.setenv("MICA_NUM_STREAMS", streams)
        torch.manual_seed(0)
        model, x = Branches(8), torch.randn(2, 8, 16, 16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = mica.compile(
            make_step(optimizer, lambda x: (model(x) ** 2).mean())
        )

        losses = [step(x) for _ in range(8)]
        assert mica.explain(step).hits >= 5
        return losses + [p.detach().clone() for p in model.parameters()]

    for one, many in zip(train("1"), train("3"), strict=True):
        assert torch.equal(one, many)


def test_threads_of_the_caller_each_have_their_own() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    program = mica.Program.parse("""program @f(%x: f32[64,64]) {
  %a = aten.mm(%x, %x) : f32[64,64]
  %b = aten.exp(%x) : f32[64,64]
  %c = aten.cumsum(%b, 1) : f32[64,64]
  %d = aten.add.Tensor(%a, %c) : f32[64,64]
  return %d
}
""")
    wanted = x @ x + x.exp().cumsum(1)

    def run(_: object) -> list[Tensor]:
        executor = mica.Executor(num_streams=2)
        return [executor.run(program, {"x": x})[0] for _ in range(50)]

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run, range(3)))
    for got in sum(results, []):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)


def test_a_forked_process_is_told() -> None:
    assert_a_fork_is_told(mica.Executor(num_streams=2, num_threads=1))


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_a_wrong_number(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MICA_NUM_STREAMS", text)
    with pytest.raises(ValueError, match="MICA_NUM_STREAMS: wants a whole"):
        mica.compile(nn.ReLU())
    with pytest.raises(ValueError, match="num_streams: wants 1 or more"):
        mica.Executor(num_streams=0)
