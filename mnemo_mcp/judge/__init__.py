"""Judging: what a new claim does to what is known, as ledger rows."""
