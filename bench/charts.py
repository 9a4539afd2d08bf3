"""Charts of measures as SVG text: groups of bars, and lines over a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

_COLOURS = ("#4c78a8", "#bab0ac", "#f58518", "#54a24b", "#b279a2", "#e45756")
_LEFT, _TOP, _HIGH, _BOTTOM = 60, 50, 220, 60


def bars(title: str, groups: Mapping[str, Mapping[str, float]], most: float = 1.0) -> str:
    """One group of bars for each name, all with the same series."""
    series = list(next(iter(groups.values())))
    wide, gap = 14, 18
    step = wide * len(series) + gap
    width = max(_LEFT + step * len(groups) + 20, _LEFT + 130 * len(series))
    parts = _frame(title, width)
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _level(share * most, most)
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{width - 10}" y2="{y}" stroke="#ddd"/>')
        parts.append(_text(10, y + 4, f"{share * most:.2f}"))
    for place, (name, values) in enumerate(groups.items()):
        left = _LEFT + gap / 2 + step * place
        for number, value in enumerate(values.values()):
            y = _level(value, most)
            parts.append(
                f'<rect x="{left + wide * number:.0f}" y="{y}" width="{wide - 2}"'
                f' height="{_TOP + _HIGH - y}" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
            )
        parts.append(_text(left, _TOP + _HIGH + 16, name))
    return "\n".join([*parts, *_legend(series), "</svg>", ""])


def lines(title: str, across: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """Values over sizes, both axes logarithmic."""
    width = 620
    values = [value for each in series.values() for value in each]
    low, high = 10 ** int(log10(min(values)) - 1), 10 ** (int(log10(max(values))) + 1)
    parts = _frame(title, width)

    def x(size: float) -> float:
        share = (log10(size) - log10(across[0])) / (log10(across[-1]) - log10(across[0]))
        return _LEFT + 30 + share * (width - _LEFT - 80)

    def y(value: float) -> float:
        share = (log10(value) - log10(low)) / (log10(high) - log10(low))
        return _TOP + _HIGH * (1 - share)

    mark = float(low)
    while mark <= high:
        parts.append(
            f'<line x1="{_LEFT}" y1="{y(mark):.1f}" x2="{width - 10}" y2="{y(mark):.1f}" stroke="#ddd"/>'
        )
        parts.append(_text(6, y(mark) + 4, f"{mark:g}"))
        mark *= 10
    for number, each in enumerate(series.values()):
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in zip(across, each, strict=True))
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for size, value in zip(across, each, strict=True):
            parts.append(f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>')
            parts.append(_text(x(size) + 5, y(value) - 5, f"{value:g}"))
    for size in across:
        parts.append(_text(x(size) - 14, _TOP + _HIGH + 16, f"{size:,.0f}"))
    return "\n".join([*parts, *_legend(list(series)), "</svg>", ""])


def _frame(title: str, width: float) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{_TOP + _HIGH + _BOTTOM}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]


def _level(value: float, most: float) -> float:
    return round(_TOP + _HIGH * (1 - min(value, most) / most), 1)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#333">{escape(text)}</text>'


def _legend(series: Sequence[str]) -> list[str]:
    y = _TOP + _HIGH + 42
    parts = []
    for number, name in enumerate(series):
        x = _LEFT + 130 * number
        parts.append(
            f'<rect x="{x}" y="{y - 10}" width="10" height="10" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        )
        parts.append(_text(x + 14, y, name))
    return parts
