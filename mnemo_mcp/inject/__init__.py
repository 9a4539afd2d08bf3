"""Injection: what a hook may say, within which budget, and how it is framed."""
