"""Encoders that turn texts into vectors, and the count of tokens. Nothing heavy is imported from here."""
