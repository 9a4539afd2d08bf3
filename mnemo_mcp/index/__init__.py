"""The RAM index: one per profile, updated with each ledger row, answering without touching the disk."""
