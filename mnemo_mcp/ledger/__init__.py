"""Truth over time: pure folding over an append-only log, and the one SQLite store that keeps it."""
