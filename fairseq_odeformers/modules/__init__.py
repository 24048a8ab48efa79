"""Layers that the models of two papers or more share, and what those need.

``encoder_layer`` and ``block`` are what stands in fairseq's stacks of layers. ``orthogonal`` has
matrices that stay orthogonal; ``classification_head``, the pooling and scores of classifiers;
``intensity_embedding``, pixels as numbers. ``dropout`` and ``linear`` take the place of torch's.
``incremental`` keeps the state of generation, ``recording`` the calls of modules, ``workspace``
large buffers, and ``dictionary_digest`` the dictionaries of a checkpoint; ``precision`` leaves half
precision. ``trusted`` says which checkpoints may be built.
"""
