"""Recall without a language model: question, channels, fusion, order, answer."""
