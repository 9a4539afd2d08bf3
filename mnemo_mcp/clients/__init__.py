"""Clients: where their settings lie, and edits of those files that can be taken back to the last byte."""
