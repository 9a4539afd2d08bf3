"""What became of the memories that a real client was shown, as `mnemo why` tells it."""

from __future__ import annotations

from product import Product, until


def verdicts(product: Product, session: str, memory: str) -> list[str]:
    """What was judged of a memory each time a session was shown it; "unknown" while it was not."""
    told = product.json("why", session)
    return [
        str(each["verdict"]) for moment in told["moments"] for each in moment["shown"] if each["id"] == memory
    ]


def until_judged(product: Product, session: str, memory: str, verdict: str) -> None:
    """Wait until the last time a session was shown a memory is judged so."""
    until(lambda: verdicts(product, session, memory)[-1:] == [verdict])
