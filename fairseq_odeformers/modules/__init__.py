"""Layers that the models of two papers or more share, and what those need.

``transformer_layer`` has bases of layers for fairseq's stacks; ``attention``, heads, maps and
masks; ``tableaus``, the numbers of Runge-Kutta methods, and ``coefficients``, how slopes are
summed; ``layer_history`` combines all layers. ``kept`` is for what evaluation computes once, such
as the matrices of ``orthogonal``, which stay orthogonal; ``classification_head``, the pooling and
scores of classifiers; ``intensity_embedding``, pixels as numbers; ``segment_embedding``, BERT's two
segments. ``basics`` takes the place of torch's dropout and linear map, and leaves half precision;
``incremental`` keeps the state of generation.
"""
