"""From a quiet thread to the few claims in it that may help another conversation."""
