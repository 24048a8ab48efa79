"""Parts that the models of several papers share.

Read ``model``, the base of all models; ``transformer``, fairseq's encoder and decoder over other
layers, and how an option reaches a layer, with ``transformer_options`` and ``prenorm_transformer``;
``sequence_classifier``, the base of all classifiers, with ``transformer_classifier`` and
``parity_model`` on top of it; then ``translation``, ``language_model``, and ``preset``, which names
architectures.

fairseq's task has a model built by its ``build_model`` and hands each batch to the criterion, which
calls the model. A translator calls its encoder, and its decoder with what that returns; both call
their layers (``stacks`` of a paper, over ``layer`` or ``block``), and the criterion makes the loss
of the decoder's output.
"""
