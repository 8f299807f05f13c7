"""The quickstart's batches and corpus, and what it calls wrong."""

from __future__ import annotations

import pytest

import corpus
import quickstart


def _token_ids(lengths: list[int]) -> list[list[int]]:
    return [[101] * length for length in lengths]


def test_every_text_is_in_one_batch() -> None:
    lengths = [3, 15, 16, 31, 32, 200, 255, 5] * 9
    batches = quickstart.make_batches(_token_ids(lengths))
    rows = sorted(row for batch in batches for row in batch.rows)
    assert rows == list(range(len(lengths)))


def test_batches_of_a_bucket_have_one_shape_and_padding_in_each_row() -> None:
    lengths = [2, 14, 15, 16, 31, 63, 64, 127, 128, 255] * 5
    for batch in quickstart.make_batches(_token_ids(lengths)):
        assert batch.ids.shape == (
            quickstart.BUCKETS[batch.tokens],
            batch.tokens,
        )
        assert batch.mask[:, 0].all()
        assert not batch.mask[:, -1].any()
        for line, row in enumerate(batch.rows):
            assert int(batch.mask[line].sum()) == lengths[row]


@pytest.mark.parametrize(
    ("length", "bucket"), [(1, 16), (15, 16), (16, 32), (255, 256)]
)
def test_a_bucket_leaves_room_for_padding(length: int, bucket: int) -> None:
    assert quickstart.bucket_of(length) == bucket


def test_thinning_out_keeps_an_even_sample() -> None:
    texts = _token_ids([4] * 100)
    assert quickstart.thin_out(texts, 0.25) == list(range(0, 100, 4))
    assert quickstart.thin_out(texts, 3.0) == list(range(100))


def test_corpus_has_thousands_of_named_texts_once_each() -> None:
    docstrings = corpus.standard_library()
    by_name = {docstring.name: docstring for docstring in docstrings}
    assert len(docstrings) > 3000
    assert len({docstring.text for docstring in docstrings}) == len(docstrings)
    assert "directory" in by_name["shutil.copytree"].first_line


def _graphs(**change: object) -> dict[str, object]:
    good = {"graphs": 2, "captures": 2, "opaque_ops": [], "refused": []}
    return good | change


def _figures() -> dict[str, object]:
    return {
        "one_minus_smallest_cosine": 1e-9,
        "buckets": {16: {}, 32: {}},
        "mica": _graphs(),
    }


def test_a_good_run_misses_no_bar() -> None:
    assert quickstart.failures(_figures()) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"one_minus_smallest_cosine": 1e-5}, "cosine"),
        ({"one_minus_smallest_cosine": float("nan")}, "cosine"),
        ({"mica": _graphs(graphs=3)}, "3 graphs"),
        ({"mica": _graphs(captures=4)}, "4 calls"),
        ({"mica": _graphs(opaque_ops=["aten.x"])}, "aten.x"),
        ({"mica": _graphs(refused=["print"])}, "print"),
    ],
)
def test_a_bad_run_says_which_bar_it_missed(
    change: dict[str, object], reason: str
) -> None:
    missed = quickstart.failures(_figures() | change)
    assert any(reason in line for line in missed)
