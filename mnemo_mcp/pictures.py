"""Pictures as SVG text: the timeline of a subject on both axes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from mnemo_mcp.memory import Instant
from mnemo_mcp.recall.timeline import Span

_LEFT, _TOP, _WIDTH, _HEIGHT, _RIGHT, _BOTTOM = 110, 40, 640, 300, 20, 60
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b")


def timeline_svg(title: str, spans: Sequence[Span], now: Instant) -> str:
    """Valid time to the right, known time downwards: each rectangle is a claim held while it was believed."""
    across = _Axis(
        [each for span in spans for each in (span.valid.start, span.valid.end)], now, _LEFT, _WIDTH
    )
    down = _Axis([each for span in spans for each in (span.known.start, span.known.end)], now, _TOP, _HEIGHT)
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(_names(spans))}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + _RIGHT}"'
        f' height="{_TOP + _HEIGHT + _BOTTOM}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _label(_LEFT, 20, title, size=15),
        _label(_LEFT, _TOP + _HEIGHT + 50, "true in the world →", "#666"),
        _label(8, 20, "known to us ↓", "#666"),
    ]
    parts += [_rectangle(span, across, down, colours[span.memory]) for span in spans]
    parts += [_tick_down(at, across) for at in across.ticks()]
    parts += [_tick_left(at, down) for at in down.ticks()]
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """Maps instants to pixels; an open end reaches a little beyond everything else."""

    def __init__(self, instants: Sequence[Instant | None], now: Instant, start: int, length: int) -> None:
        self._told = sorted({each for each in instants if each is not None})
        self._first = _moment(self._told[0])
        last = max(_moment(self._told[-1]), min(_moment(now), self._first + timedelta(days=36_500)))
        room = max(last - self._first, timedelta(days=1)) * 0.06
        self._span = last + room - self._first
        self._start, self._length = start, length

    def place(self, at: Instant | None) -> float:
        if at is None:
            return self._start + self._length
        return self._start + self._length * ((_moment(at) - self._first) / self._span)

    def ticks(self) -> list[Instant]:
        """The instants that can be labelled without touching each other."""
        kept: list[Instant] = []
        for at in self._told:
            if not kept or self.place(at) - self.place(kept[-1]) >= 18:
                kept.append(at)
        return kept


def _rectangle(span: Span, across: _Axis, down: _Axis, colour: str) -> str:
    left, right = across.place(span.valid.start), across.place(span.valid.end)
    top, bottom = down.place(span.known.start), down.place(span.known.end)
    box = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(1.0, right - left):.1f}"'
        f' height="{max(1.0, bottom - top):.1f}" fill="{colour}" fill-opacity="0.75" stroke="white">'
        f"<title>{escape(span.what)}</title></rect>"
    )
    room = int((right - left) / 7)
    text = span.what if len(span.what) <= room else span.what[: max(0, room - 1)] + "…"
    fits = room >= 4 and bottom - top >= 14
    return box + (_label(left + 4, top + 14, text, "white") if fits else "")


def _tick_down(at: Instant, across: _Axis) -> str:
    x, y = across.place(at), _TOP + _HEIGHT
    text = (
        f'<text x="{x:.1f}" y="{y + 12}" transform="rotate(35 {x:.1f} {y + 12})" fill="#333">{at[:10]}</text>'
    )
    return (
        f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{y}" stroke="#ccc" stroke-dasharray="2 3"/>{text}'
    )


def _tick_left(at: Instant, down: _Axis) -> str:
    y = down.place(at)
    line = f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _WIDTH}" y2="{y:.1f}" stroke="#eee"/>'
    return line + _label(20, y + 4, at[:10], "#333")


def _label(x: float, y: float, text: str, colour: str = "#111", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}">{escape(text)}</text>'


def _names(spans: Sequence[Span]) -> list[str]:
    return list(dict.fromkeys(span.memory for span in spans))


def _moment(at: Instant) -> datetime:
    return datetime.fromisoformat(at)
