"""Capture: what clients send becomes episodes. Only this room and `inject` know clients' formats."""
