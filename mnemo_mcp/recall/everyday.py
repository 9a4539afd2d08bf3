"""Everyday requests: what any session is asked and no memory helps with, as a measure of nearness.

Cosines of different questions do not compare, but within one question they do: what is told unasked lies
nearer to it than any of these.
"""

from __future__ import annotations

import numpy as np

from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.models.encoder import Encoder

_REQUESTS = """
Explain how this algorithm works in general.
What is a pointer, a mutex, a monad?
Write a short poem or a story.
Translate this sentence into another language.
Rename this variable, function or class.
Fix the typo, the indentation or the formatting.
Remove unused imports and dead code from this file.
Add a comment or a docstring to this function.
Sort, filter or reverse this list.
Write a regular expression for this pattern.
What is two plus two? Calculate this.
What is the capital of this country? A question of general knowledge.
Who wrote this famous book?
How do I undo a commit in git?
How do I use this command of the shell or the editor?
Center this element with CSS, change its colour or its size.
Show me the file, the diff or the output again.
Undo your last change, put it back as it was.
Summarise or shorten this text, say it more simply.
Convert this code into another language or form.
Refactor this loop into a helper function.
Why does this code not compile?
What does this status code or error of the standard library mean?
Hello, let us start. Thank you, that was good.
Write a unit test for this small function.
Count the words in this paragraph.
Give me some ideas for a name.
Format this table as markdown.
"""


class Everyday:
    """The vectors of everyday requests, made once for each encoder."""

    def __init__(self) -> None:
        self._vectors: dict[str, Floats] = {}

    def nearest(self, encoder: Encoder, question: Floats) -> float:
        """The cosine of the everyday request nearest to a question. Raises `ModelError`."""
        return float(np.max(self.vectors(encoder) @ question))

    def vectors(self, encoder: Encoder) -> Floats:
        """What `encoder` makes of the requests; a tenth of a second the first time. Raises `ModelError`."""
        known = self._vectors.get(encoder.id)
        if known is None:
            known = encoder.encode(_REQUESTS.strip().splitlines(), query=True)
            self._vectors[encoder.id] = known
        return known
