"""Retention: how much of a memory's weight is left when nobody confirmed or used it for long.

Ebbinghaus' curve R = e^(-t/S) in days. A memory told once and never used keeps a fifth after 90 days; each
confirmation and each use lengthens that. It only ever moves a memory behind equals, never out of an answer.
"""

from __future__ import annotations

from math import exp, log1p

BASE_DAYS = 56.0  # one telling, no use: R falls to 0.2 after 90 days and to 0.05 after 168
_FROM_USES = 2.0


def retained(days: float, confirmations: int = 1, uses: int = 0) -> float:
    """What is left `days` after the last telling or use, 0..1; a time yet to come counts as now."""
    strength = BASE_DAYS * (max(1, confirmations) + _FROM_USES * log1p(max(0, uses)))
    return exp(-max(0.0, days) / strength)
