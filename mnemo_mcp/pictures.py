"""Pictures as SVG text: the timeline of a subject on both axes, and what hooks said day by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mnemo_mcp.memory import Instant
from mnemo_mcp.recall.timeline import Span

_LEFT, _TOP, _RIGHT = 100, 60, 20
_STEP_ACROSS, _STEP_DOWN, _LINE = 130, 56, 20
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b")


def timeline_svg(title: str, spans: Sequence[Span]) -> str:
    """Valid time to the right, known time downwards: each rectangle is a claim held while it was believed.

    Every instant at which something changed gets one step, so that a day can be seen beside a year.
    """
    across = _Axis(
        [each for span in spans for each in (span.valid.start, span.valid.end)], _LEFT, _STEP_ACROSS
    )
    down = _Axis([each for span in spans for each in (span.known.start, span.known.end)], _TOP, _STEP_DOWN)
    names = list(dict.fromkeys((span.memory, span.what) for span in spans))
    colours = {memory: _COLOURS[place % len(_COLOURS)] for place, (memory, _) in enumerate(names)}
    legend = down.end + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across.end + _RIGHT}"'
        f' height="{legend + _LINE * len(names)}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _label(10, 20, title, size=15),
        _label(10, 44, "known to us ↓", "#666"),
        _label(across.end - 110, 20, "true in the world →", "#666"),
    ]
    parts += [_rectangle(span, across, down, colours[span.memory]) for span in spans]
    for at in across.instants:
        x = across.place(at)
        parts.append(
            f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{down.end}" stroke="#999" stroke-dasharray="2 3"/>'
        )
        parts.append(_label(x + 3, _TOP - 8, at[:10], "#333"))
    for at in down.instants:
        y = down.place(at)
        parts.append(
            f'<line x1="{_LEFT - 6}" y1="{y}" x2="{across.end}" y2="{y}" stroke="#999" stroke-width="0.5"/>'
        )
        parts.append(_label(20, y + 14, at[:10], "#333"))
    for place, (memory, what) in enumerate(names):
        y = legend + _LINE * place
        parts.append(f'<rect x="{_LEFT}" y="{y - 10}" width="12" height="12" fill="{colours[memory]}"/>')
        parts.append(_label(_LEFT + 20, y, what))
    return "\n".join([*parts, "</svg>", ""])


_BAR, _GAP, _HIGH = 14, 4, 160
_VERDICTS = (("used", "#54a24b"), ("unsure", "#eeca3b"), ("unused", "#e45756"), ("unknown", "#bab0ac"))


def stats_svg(stats: Mapping[str, Any]) -> str:
    """Tokens injected a day as bars, and below them what became of the memories that were shown."""
    days, shown = stats["by_day"], stats["memories_shown"]
    width = max(420, _LEFT + (_BAR + _GAP) * len(days) + _RIGHT)
    most = max((day["tokens"] for day in days), default=0) or 1
    base = _TOP + _HIGH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{base + 100}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _label(10, 20, f"Tokens injected in {stats['days']} days: {stats['tokens']}", size=15),
        _label(10, _TOP + 10, str(most), "#666"),
        _label(10, base, "0", "#666"),
    ]
    for place, day in enumerate(days):
        high = round(_HIGH * day["tokens"] / most)
        x = _LEFT + place * (_BAR + _GAP)
        parts.append(
            f'<rect x="{x}" y="{base - high}" width="{_BAR}" height="{high}" fill="{_COLOURS[0]}">'
            f"<title>{escape(day['day'])}: {day['tokens']} tokens</title></rect>"
        )
    for day, x in ((days[0], _LEFT), (days[-1], width - _RIGHT - 70)) if days else ():
        parts.append(_label(x, base + 16, day["day"], "#666"))
    left = float(_LEFT)
    for place, (name, colour) in enumerate(_VERDICTS):
        count = stats["verdicts"][name]
        long = (width - _LEFT - _RIGHT) * count / shown if shown else 0.0
        parts.append(f'<rect x="{left:.1f}" y="{base + 34}" width="{long:.1f}" height="16" fill="{colour}"/>')
        parts.append(_label(_LEFT + 80 * place, base + 70, f"{name} {count}", colour))
        left += long
    return "\n".join([*parts, _label(10, base + 46, "memories", "#666"), "</svg>", ""])


_SIDE = 260


def reliability_svg(title: str, bins: Sequence[Mapping[str, Any]]) -> str:
    """How often a model was right (upwards) when so sure (to the right); the line is as it should be."""
    bottom = _TOP + _SIDE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _SIDE + _RIGHT}" height="{bottom + 40}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _label(10, 20, title, size=15),
        _label(10, _TOP + 10, "right 1.0", "#666"),
        _label(10, bottom, "0.0", "#666"),
        _label(_LEFT, bottom + 20, "0.0", "#666"),
        _label(_LEFT + _SIDE - 60, bottom + 20, "said 1.0", "#666"),
    ]
    for each in bins:
        x, high = _LEFT + _SIDE * each["from"], _SIDE * each["right"]
        wide = _SIDE * (each["to"] - each["from"]) - 2
        parts.append(
            f'<rect x="{x:.1f}" y="{bottom - high:.1f}" width="{wide:.1f}" height="{high:.1f}"'
            f' fill="{_COLOURS[0]}"><title>{each["pairs"]} pairs: said {each["said"]},'
            f" right {each['right']}</title></rect>"
        )
    parts.append(
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + _SIDE}" y2="{_TOP}" stroke="#e45756"'
        ' stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """Maps instants to pixels, one step each; an open end lies one step after the last."""

    def __init__(self, instants: Sequence[Instant | None], start: int, step: int) -> None:
        self.instants = sorted({each for each in instants if each is not None})
        self._start, self._step = start, step
        self.end = start + step * len(self.instants)

    def place(self, at: Instant | None) -> int:
        return self.end if at is None else self._start + self._step * self.instants.index(at)


def _rectangle(span: Span, across: _Axis, down: _Axis, colour: str) -> str:
    left, right = across.place(span.valid.start), across.place(span.valid.end)
    top, bottom = down.place(span.known.start), down.place(span.known.end)
    return (
        f'<rect x="{left + 1}" y="{top + 1}" width="{right - left - 2}" height="{bottom - top - 2}"'
        f' fill="{colour}" fill-opacity="0.85"><title>{escape(span.what)}</title></rect>'
    )


def _label(x: int, y: int, text: str, colour: str = "#111", size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}">{escape(text)}</text>'
