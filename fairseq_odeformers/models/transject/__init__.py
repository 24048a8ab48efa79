r"""TransJect: Sengupta et al. (2023), "Manifold-Preserving Transformers are Effective for
Short-Long Range Encoding" (https://arxiv.org/abs/2310.14206).

Attention becomes :math:`X U \Sigma V` with orthogonal U and V, and :math:`\Sigma` the approximate
eigenvalues of :math:`X_0^T X_0`, the same in all layers. With a small step it is an injective
residual :math:`X + (\alpha / L)\, \mathrm{ELU}(X U \Sigma V)`, which keeps distances between tokens
within a bound. Its time is linear in the number of tokens.

Read ``naive.py`` first, the paper's equations. Then read the same for batches: ``embedding.py`` is
X_0, ``eigenvalues.py`` is Sigma, and ``layer.py`` is a layer, built from the options in
``spec.py``, with ``token_statistics.py`` for the causal form. ``encoder.py`` and ``decoder.py``
stack the layers, and ``models.py`` registers the models. ``criterions/regularizers.py`` adds the
error of the eigenvalues, the reconstruction, to the loss.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("TransJect", "Sengupta et al.", 2023, color="green")
