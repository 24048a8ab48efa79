r"""TransJect: Sengupta et al. (2023), "Manifold-Preserving Transformers are Effective for
Short-Long Range Encoding" (https://arxiv.org/abs/2310.14206).

Attention becomes :math:`X U \Sigma V` with orthogonal U and V, and with the approximate eigenvalues
:math:`\Sigma` of :math:`X_0^T X_0`, shared by all layers. With a small step, the residual
:math:`X + (\alpha / L)\, \mathrm{ELU}(X U \Sigma V)` is injective, and the change of distances
between tokens is bounded. Attention takes time linear in the number of tokens.

Read ``naive.py`` first, the paper's equations. The other modules compute them for batches:
``embedding.py`` X_0, ``eigenvalues.py`` Sigma, and ``layer.py`` a layer, built from the options in
``spec.py``, with ``token_statistics.py`` for sums and maxima. ``encoder.py`` and ``decoder.py``
stack the layers, and ``models.py`` registers the models.
``criterions/regularizers.py`` adds the reconstruction error of the eigenvalues to the loss.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("TransJect", "Sengupta et al.", 2023, color="green", arxiv="2310.14206")
