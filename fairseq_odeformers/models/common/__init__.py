"""Parts that the models of several papers share.

Read ``model``, the base of all models; ``answers``, what layers tell about themselves, and
``recording``, how their calls are watched; ``naive``, a Transformer's formulas; ``transformer``,
fairseq's encoder and decoder over other layers, and how an option reaches a layer, with
``transformer_options`` and ``prenorm_transformer``; ``depths``, for blocks that consist of several
layers; ``runge_kutta``, layers that are evaluated several times, and models of them;
``sequence_classifier``, the base of all classifiers, with ``transformer_classifier`` and
``parity_model`` on top of it; then ``translation`` and ``language_model``.

fairseq's task calls a model's ``build_model`` once, and for each batch the criterion, which calls
the model: first the encoder, then the decoder with the encoder's output. Both are a paper's
``stacks`` over its ``layer`` or ``block``. The criterion makes the loss of the decoder's output.
"""
