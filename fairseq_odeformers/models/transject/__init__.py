r"""TransJect: Sengupta et al. (2023), "Manifold-Preserving Transformers are Effective for
Short-Long Range Encoding" (https://arxiv.org/abs/2310.14206).

Attention becomes :math:`X U \Sigma V` with orthogonal U and V, and :math:`\Sigma` the approximate
eigenvalues of :math:`X_0^T X_0`, the same in all layers; with a small step it is an injective
residual :math:`X + (\alpha / L)\, \mathrm{ELU}(X U \Sigma V)`, which keeps distances between tokens
within a bound, in a time linear in their number. Read ``naive.py`` first, the paper's equations;
then ``layer.py``, the same for batches, and ``token_statistics.py``, which makes them causal;
``classifier.py`` and ``language_model.py`` are the models.
"""

from . import classifier, language_model  # noqa: F401
