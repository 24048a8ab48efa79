"""Parts that the models of several papers share.

Read ``model``, the base of all models; ``spec``, how an option reaches a layer; ``transformer``,
fairseq's encoder and decoder over other layers, with ``transformer_options`` and
``prenorm_transformer``; ``sequence_classifier``, the base of all classifiers, with
``transformer_classifier`` and ``parity_model`` on top of it; then ``translation``,
``language_model``, and ``preset``, which names architectures.
"""
