"""What the models of several papers share: fairseq's Transformer, opened for other layers.

Read ``options``, how a model declares and checks the options of the command line; ``stacks``,
fairseq's encoder and decoder over layers of another class; then what surrounds a paper's layers:
``sequence_classifier``, with ``transformer_classifier`` and ``parity_model`` on top of it,
``translation`` and ``language_model``.
"""
