"""Draw what `bench/rank.py --json` printed for several sizes, one line each on standard input, into FILE."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import charts

SERIES = {
    "whole rank, p95": "rank_p95_ms",
    "plain exact pass, p95": "exact_p95_ms",
    "tuned exact pass, p95": "exact_tuned_p95_ms",
}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(f"{__doc__}\nusage: latency.py FILE < lines")
    rows = sorted((json.loads(line) for line in sys.stdin if line.strip()), key=lambda row: row["rows"])
    series = {name: [row[key] for row in rows] for name, key in SERIES.items()}
    picture = charts.lines("CPU milliseconds by memories in the store", [row["rows"] for row in rows], series)
    Path(sys.argv[1]).write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
