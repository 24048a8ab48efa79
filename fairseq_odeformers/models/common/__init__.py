"""What the models of several papers share: fairseq's Transformer, opened for other layers.

Read ``transformer``, fairseq's encoder and decoder over other layers, and their options and
config; then what surrounds a paper's layers:
``sequence_classifier``, with ``transformer_classifier`` and ``parity_model`` on top of it,
``translation`` and ``language_model``.
"""
