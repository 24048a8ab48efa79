"""Layers that the models of two or more papers share, and their building blocks.

- ``transformer_layer``: base classes of layers for fairseq's stacks.
- ``attention``: heads, attention maps and masks.
- ``tableaus``: the coefficients of Runge-Kutta methods.
- ``coefficients``: weighted sums of slopes.
- ``layer_history``: a learned combination of all earlier layers.
- ``cached_tensors``: tensors that evaluation computes only once, such as orthogonal matrices.
- ``orthogonal``: matrices that stay orthogonal in training.
- ``classification_head``: pooling and class scores.
- ``intensity_embedding``: an embedding of pixels as numbers.
- ``segment_embedding``: BERT's embedding of tokens and segments.
- ``basics``: replacements for torch's dropout and linear map, and a cast to float32.
- ``incremental``: the state of incremental decoding.
"""
