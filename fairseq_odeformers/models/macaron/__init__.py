r"""Macaron Net: a splitting scheme for an ODE of interacting particles (Lu et al. 2019).

Attention lets tokens interact (diffusion); an FFN moves each token by itself (convection). A
Transformer layer takes a step of attention, then a step of the FFN (Lie-Trotter splitting). A
Macaron layer takes half a step of an FFN before the attention and another half after it
(Strang-Marchuk splitting, Eqs. 17 to 19). With exact sub-steps, this would be of order 2, not 1:

.. math::
    \tilde x = x + \tfrac12 \mathrm{FFN}_\mathrm{down}(x), \quad
    \hat x = \tilde x + \mathrm{Attention}(\tilde x), \quad
    x' = \hat x + \tfrac12 \mathrm{FFN}_\mathrm{up}(\hat x)

Read ``naive``, the paper's equations; ``layer``, the same over fairseq's layers; ``stacks``, the
encoders and the decoder; then ``models``, the registered translator, language model, BERT and
classifier.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("Macaron Net", "Lu et al.", 2019, color="vermillion", arxiv="1906.02762")
