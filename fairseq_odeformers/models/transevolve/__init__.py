r"""TransEvolve: attention computed once per block, evolving over depth (Dutta et al. 2021).

A Transformer computes new scores in every layer. Here, a block of depth L computes them once from
its input (:math:`A_0`), together with the terms that make them evolve: at depth l = 1..L

.. math::
    A^l = \mathrm{softmax}(A_0 + A_1 T^l + (A_2 T^l)^T + A_3 (T^l \odot T^l)), \quad
    Y^l = A^l \, \mathrm{LN}(X^{l-1}) W_o^l + X^{l-1}, \quad
    X^l = \mathrm{FF}^l(\mathrm{LN}(Y^l)) + Y^l

where :math:`T^l` is a learned Fourier map of the depth. Read ``naive``, the paper's equations;
``spec``, the choices of a block; ``attention``, computed once per block, and ``factored``, its fast
form on a CPU; ``feed_forward``, the full and random FFNs; ``block``, their combination;
then ``stacks``, the encoder and the decoders, and ``models``, the registered models and their
options. ``models`` passes the options to ``stacks``, where ``Spec.from_options`` of
``common.transformer`` collects them in the spec of a block and its attention.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family(
    "TransEvolve",
    "Dutta et al.",
    2021,
    color="blue",
    variants={"random": "sky"},
    arxiv="2109.15142",
)
