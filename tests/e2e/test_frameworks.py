"""Frameworks train compiled models: eager's losses, served from the third step.

Each is skipped by name where it isn't installed; tools/test.sh installs them.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import mica
from vision_operators import define_vision_operators

define_vision_operators()

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, a):
        return self.second(torch.relu(self.first(a)))


def batches():
    seed = torch.Generator().manual_seed(1)
    return [
        (torch.randn(5, 8, generator=seed), torch.randn(5, 4, generator=seed))
        for _ in range(8)
    ]


def check(losses, wanted, compiled):
    """Eager's losses, and each step from the third on a hit."""
    assert len(losses) == len(wanted) >= 6
    torch.testing.assert_close(
        torch.tensor(losses, dtype=torch.float64),
        torch.tensor(wanted, dtype=torch.float64),
        rtol=1e-5,
        atol=0,
    )
    told = mica.explain(compiled)
    assert told.hits >= len(losses) - 2, str(told)
    assert told.split_calls == 0, str(told)


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Lit(lightning.LightningModule):
        def __init__(self, wrap):
            super().__init__()
            self.net = wrap(Net())
            self.losses = []

        def forward(self, a):
            return self.net(a)

        def training_step(self, batch, index):
            a, want = batch
            loss = (self(a) - want).square().mean()
            self.losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(model):
        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            default_root_dir=tmp_path,
        )
        loader = torch.utils.data.DataLoader(batches(), batch_size=None)
        trainer.fit(model, loader)
        trainer.save_checkpoint(tmp_path / "saved.ckpt")
        saved = torch.load(tmp_path / "saved.ckpt", weights_only=False)
        return model.losses, list(saved["state_dict"])

    def made(wrap):
        torch.manual_seed(0)
        return Lit(wrap)

    wanted, names = fit(made(lambda net: net))
    inner = made(mica.compile)
    losses, own_names = fit(inner)
    check(losses, wanted, inner.net)
    assert own_names == names
    outer = mica.compile(made(lambda net: net))
    losses, own_names = fit(outer)
    check(losses, wanted, outer)
    assert own_names == names


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate(precision):
    accelerate = pytest.importorskip("accelerate")

    def fit(wrap):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        torch.manual_seed(0)
        net = wrap(Net())
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        accelerator = accelerate.Accelerator(
            cpu=True, mixed_precision=precision
        )
        loader = torch.utils.data.DataLoader(batches(), batch_size=None)
        model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
        losses = []
        for _ in range(2):
            for a, want in loader:
                optimizer.zero_grad()
                loss = (model(a) - want).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
        assert isinstance(accelerator.unwrap_model(model), Net)
        return losses, net

    # Mixed precision rounds where it sums: bit for bit only with `exact`.
    wanted, _ = fit(lambda net: net)
    losses, net = fit(lambda net: mica.compile(net, exact=precision != "no"))
    check(losses, wanted, net)


def tiny_bert():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def texts():
    seed = torch.Generator().manual_seed(1)
    return [
        {
            "input_ids": torch.randint(0, 50, (8,), generator=seed),
            "attention_mask": torch.ones(8, dtype=torch.long),
            "labels": torch.tensor(i % 2),
        }
        for i in range(32)
    ]


def test_transformers_trainer(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def fit(net, folder):
        losses = []

        class Losses(transformers.TrainerCallback):
            def on_log(self, args, state, control, logs=None, **rest):
                if "loss" in logs:
                    losses.append(logs["loss"])

        transformers.Trainer(
            net,
            transformers.TrainingArguments(
                str(folder),
                max_steps=8,
                per_device_train_batch_size=4,
                logging_steps=1,
                save_steps=4,
                learning_rate=1e-2,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=texts(),
            callbacks=[Losses()],
        ).train()
        return losses

    wanted = fit(tiny_bert(), tmp_path / "plain")
    net = mica.compile(tiny_bert())
    check(fit(net, tmp_path / "compiled"), wanted, net)
    saved = [
        sorted(p.name for p in (tmp_path / which / "checkpoint-8").iterdir())
        for which in ("plain", "compiled")
    ]
    assert saved[0] == saved[1]
    again = transformers.BertForSequenceClassification.from_pretrained(
        tmp_path / "compiled" / "checkpoint-8"
    )
    torch.testing.assert_close(dict(again.state_dict()), dict(net.state_dict()))


@pytest.mark.parametrize("way", ["base", "around"])
def test_peft(way, tmp_path):
    peft = pytest.importorskip("peft")

    def fit(way):
        base = tiny_bert()
        if way == "base":
            base = mica.compile(base)
        torch.manual_seed(1)
        model = peft.get_peft_model(
            base,
            peft.LoraConfig(
                task_type="SEQ_CLS",
                r=4,
                target_modules=["query", "value"],
                lora_dropout=0.0,
            ),
        )
        if way == "around":
            model = mica.compile(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-2)
        rows, losses = texts(), []
        model.train()
        for i in range(0, 32, 4):
            batch = {
                name: torch.stack([row[name] for row in rows[i : i + 4]])
                for name in rows[0]
            }
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, model, base if way == "base" else model

    wanted, plain, _ = fit("")
    losses, model, compiled = fit(way)
    check(losses, wanted, compiled)
    assert list(model.state_dict()) == list(plain.state_dict())
    model.save_pretrained(tmp_path / way)
    plain.save_pretrained(tmp_path / "plain")
    names = [
        sorted(p.name for p in (tmp_path / which).iterdir())
        for which in (way, "plain")
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "fully_shard"])
def test_two_processes(kind, tmp_path):
    out = tmp_path / "out.json"
    script = Path(__file__).with_name("two_processes.py")
    subprocess.run(
        [sys.executable, str(script), kind, str(out)], check=True, timeout=300
    )
    found = json.loads(out.read_text())
    wanted = found["plain"]
    for way in ("compiled", "around"):
        torch.testing.assert_close(
            found[way]["losses"], wanted["losses"], rtol=1e-5, atol=0
        )
        assert found[way]["names"] == wanted["names"]
    if kind == "ddp":  # FSDP's runs go in pieces.
        assert found["compiled"]["hits"] >= 4, found["compiled"]["told"]


def test_a_spawned_process_compiles_anew(tmp_path):
    out = tmp_path / "out.json"
    script = Path(__file__).with_name("two_processes.py")
    subprocess.run([sys.executable, str(script), "spawn", str(out)], check=True)
    found = json.loads(out.read_text())
    torch.testing.assert_close(found["here"], found["there"])
    assert found["hits"] == 2
