"""Parts that the models of several papers share.

Read them in this order:

- ``model``: the base of all models.
- ``answers``: questions that layers answer about themselves; ``recording``: their calls.
- ``naive``: the equations of a Transformer.
- ``transformer``: fairseq's encoder and decoder over custom layers, and how an option reaches a
  layer; with ``transformer_options`` and ``prenorm_transformer``.
- ``depths``: blocks that consist of several layers.
- ``runge_kutta``: layers that are evaluated several times, and their models.
- ``sequence_classifier``: the base of all classifiers; with ``transformer_classifier`` and
  ``parity_model``.
- ``translation`` and ``language_model``.

fairseq's task calls a model's ``build_model`` once. For each batch, it calls the criterion. The
criterion calls the model: first the encoder, then the decoder with the encoder's output. Both are a
paper's ``stacks`` over its ``layer`` or ``block``. The criterion then computes the loss from the
decoder's output.
"""
