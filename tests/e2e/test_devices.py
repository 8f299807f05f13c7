"""Models and training steps on the simulated device: the host's bits."""

import pytest

import check_devices

# A bounded share of what tools/check_devices.py goes through.
_NAMES = ("BERT-base", "GPT-2", "ResNet-18", "GRU", "digits net, AdamW")


@pytest.mark.skipif(
    not check_devices.BENCH.exists(), reason="the tools are not built"
)
@pytest.mark.parametrize("name", _NAMES)
def test_a_simulated_device_computes_what_the_host_does(name: str) -> None:
    is_well, text = check_devices.check(name, "simulated:0", streams=4)
    assert is_well and text.startswith("0.0e+00 apart"), text


def test_a_device_that_there_is_not_is_named(tmp_path) -> None:
    check_devices.export("GRU", tmp_path)
    with pytest.raises(RuntimeError, match="wants device cuda:77|not found"):
        check_devices.run(tmp_path, "cuda:77", streams=1)
    with pytest.raises(RuntimeError, match="place: wants cpu, cuda or"):
        check_devices.run(tmp_path, "moon:0", streams=1)
