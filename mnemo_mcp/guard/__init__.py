"""The guard: which differences two texts have that no likeness may overlook. Rules alone, no model."""

from mnemo_mcp.guard.comparing import Difference, differences, may_be_same
from mnemo_mcp.guard.repeating import repeats

__all__ = ["Difference", "differences", "may_be_same", "repeats"]
