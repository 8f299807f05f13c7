"""The tables that tools/bench_models.py's figures make, and their page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN = "<!-- models: made by tools/bench_models.py --write -->"
END = "<!-- end of models -->"

# How many times as fast as eager Mica is to be; 1 for those not named.
SPEED_BARS = {
    ("inference", "ResNet-50"): 1.4,
    ("inference", "MobileNetV2"): 2.0,
    ("inference", "BERT 12x64"): 1.7,
    ("training", "digits net"): 1.3,
}
COLD_BARS_S = {"inference": 1.0, "training": 2.0}
ARENA_BAR = 1.03

# Columns of rivals, in this order.
_TITLES = {
    "mica": "Mica",
    "mica live": "Mica, not frozen",
    "inductor": "Inductor",
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
}

# Why there is no figure where nobody asked for one.
_NOT_RUN = "not among the systems of that case's run"

Figures = dict[str, Any]


def speed_bar(case: Figures) -> float:
    """Returns the bar of a case's ratio to eager."""
    return SPEED_BARS.get((case["kind"], case["model"]), 1.0)


def verdicts(case: Figures) -> list[tuple[str, bool]]:
    """Returns what a case is held to, in words, and whether it was met."""
    systems = case["systems"]
    found = systems.get("mica", {})
    if "ms" not in found:
        return [("ran", False)]
    bar, kind = speed_bar(case), case["kind"]
    held = [
        (f"≥ {bar:g}×", found["to_eager"]["median"] >= bar),
        (
            f"cold ≤ {COLD_BARS_S[kind]:g} s",
            found["cold_s"] <= COLD_BARS_S[kind],
        ),
        ("no op left to ATen", not found["opaque"]),
    ]
    if found["arena_to_live"] is not None:
        held.append(
            (f"arena ≤ {ARENA_BAR}×", found["arena_to_live"] <= ARENA_BAR)
        )
    if kind == "inference":
        held.append(
            ("one graph", found["graphs"] == 1 and not found["refusals"])
        )
    if kind == "training" and "peak_mb" in found:
        eager = systems["eager"].get("peak_mb", 0.0)
        held.append(("memory ≤ eager's", found["peak_mb"] <= eager))
    return held


def missed(case: Figures) -> list[str]:
    """Returns the bars that a case doesn't meet."""
    return [text for text, is_met in verdicts(case) if not is_met]


def show(case: Figures) -> str:
    """Returns a case's figures for a terminal, a line for each system."""
    lines = [f"{case['model']}, {case['detail']}, {case['kind']}"]
    for name, found in case["systems"].items():
        if "ms" not in found:
            lines.append(f"  {name:12} {found['reason']}")
            continue
        ratio = found["to_eager"]
        lines.append(
            f"  {name:12} {found['ms']['median']:9.3f} ms "
            f"{ratio['median']:6.2f}× ({ratio['min']:.2f} to "
            f"{ratio['max']:.2f})  cold {found['cold_s']:.2f} s"
            + (f"  {found['peak_mb']:.1f} MB" if "peak_mb" in found else "")
        )
    if "mica" in case["systems"]:
        lines.append(f"  not met: {', '.join(missed(case)) or 'nothing'}")
    return "\n".join(lines)


def write_page(figures: Figures) -> None:
    """Replaces what stands between the page's two marks."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n" + page(figures) + END + after)


def page(figures: Figures) -> str:
    """Returns the tables as Markdown."""
    commits = dict.fromkeys(case["commit"] for case in figures["cases"])
    parts = [
        f"Commit {', '.join(commits)}, {figures['processor']}, torch "
        f"{figures['torch']}, threads: {figures['threads']}, "
        f"{figures['dtype']}, {figures['rounds']} rounds.\n"
    ]
    if figures.get("note"):
        parts.append(f"\n{figures['note']}\n")
    parts.append("\n")
    for kind, title in (
        ("inference", "Inference, frozen weights"),
        ("training", "Training steps"),
    ):
        cases = [case for case in figures["cases"] if case["kind"] == kind]
        if not cases:
            continue
        parts.append(f"### {title}\n")
        parts.append(_speeds(cases, kind))
        parts.append(_costs(cases))
        parts.append(_reasons(cases))
    return "".join(parts).rstrip("\n") + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n"


def _speeds(cases: list[Figures], kind: str) -> str:
    """Times as fast as eager: the median of the rounds, least and greatest."""
    names = [
        name
        for name in _TITLES
        if any("ms" in case["systems"].get(name, {}) for case in cases)
    ]
    rows = []
    for case in cases:
        eager = case["systems"]["eager"]
        row = [
            case["model"],
            case["detail"],
            f"{eager['ms']['median']:.4g} ms" if "ms" in eager else "–",
        ]
        for name in names:
            row.append(_ratio(case["systems"].get(name, {})))
        met = "ms" in case["systems"].get("mica", {}) and (
            case["systems"]["mica"]["to_eager"]["median"] >= speed_bar(case)
        )
        row += [_best_rival(case)] if kind == "inference" else []
        row += [f"≥ {speed_bar(case):g}×", "yes" if met else "**no**"]
        rows.append(row)
    head = ["step" if kind == "training" else "model", "sizes", "eager"]
    head += [_TITLES[name] for name in names]
    head += ["next to the best rival"] if kind == "inference" else []
    return _table([*head, "bar", "met"], rows)


def _best_rival(case: Figures) -> str:
    """The fastest rival, and how many times as fast as that Mica is."""
    found = {
        name: one["to_eager"]["median"]
        for name, one in case["systems"].items()
        if "ms" in one and name not in ("eager", "mica live")
    }
    own = found.pop("mica", None)
    if not found:
        return "no rival measured"
    best = max(found, key=lambda name: found[name])
    if own is None:
        return f"**behind** {_TITLES[best]}"
    ratio = own / found[best]
    verdict = "ahead of" if ratio > 1 else "**behind**"
    return f"{ratio:.2f}×, {verdict} {_TITLES[best]}"


def _ratio(found: Figures) -> str:
    if "ms" not in found:
        return "–"
    ratio = found["to_eager"]
    return f"{ratio['median']:.2f}× ({ratio['min']:.2f}–{ratio['max']:.2f})"


def _costs(cases: list[Figures]) -> str:
    """What Mica needs beside time."""
    rows = []
    for case in cases:
        found = case["systems"].get("mica", {})
        if "ms" not in found:
            continue
        arena = found["arena_to_live"]
        rows.append(
            [
                case["model"],
                case["detail"],
                _first_call(found),
                f"{found['cold_s']:.2f} s",
                "–" if arena is None else f"{arena:.3f}×",
                f"{_peak(found)} / {_peak(case['systems']['eager'])} MB",
                str(found["graphs"]),
                ", ".join(found["opaque"]) or "none",
                _difference(found),
                ", ".join(missed(case)) or "nothing",
            ]
        )
    head = ["", "sizes", "first call", "cold start", "arena to live set"]
    head += ["peak, Mica / eager", "graphs", "left to ATen"]
    return _table([*head, "difference", "not met"], rows)


def _first_call(found: Figures) -> str:
    extra = found.get("first_call_s")
    return "not kept" if extra is None else f"{extra:.2f} s"


def _difference(found: Figures) -> str:
    value = found.get("difference")
    return "–" if value is None else f"{value:.0e}"


def _peak(found: Figures) -> str:
    return f"{found['peak_mb']:.1f}" if "peak_mb" in found else "–"


def _reasons(cases: list[Figures]) -> str:
    """Why there are dashes, once for each reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    shown = [
        name
        for name in _TITLES
        if any("ms" in case["systems"].get(name, {}) for case in cases)
    ]
    for case in cases:
        systems = case["systems"]
        for name in dict.fromkeys([*systems, *shown]):
            if "ms" in systems.get(name, {}):
                continue
            reason = systems.get(name, {}).get("reason", _NOT_RUN)
            key = (_TITLES.get(name, name), reason)
            what = f"{case['model']} ({case['detail']})"
            by_reason.setdefault(key, []).append(what)
    lines = []
    for (name, reason), models in by_reason.items():
        unique = list(dict.fromkeys(models))
        which = "all" if len(models) == len(cases) else ", ".join(unique)
        lines.append(f"- {name}, {which}: {reason}.\n")
    return "Not measured:\n\n" + "".join(lines) + "\n" if lines else ""
