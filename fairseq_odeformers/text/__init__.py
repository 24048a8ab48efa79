"""Conversion of text to tokens and back: Moses, subwords (BPE), word pieces, detokenisation."""
