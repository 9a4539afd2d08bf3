"""Standing: what is derived about memories from how they were used; none of it enters the ledger."""
