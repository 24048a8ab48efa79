r"""PCformer: Li et al. (2024), "Predictor-Corrector Enhanced Transformers with Exponential Moving
Average Coefficient Learning" (https://arxiv.org/abs/2411.03042).

A layer predicts by a Runge-Kutta method with exponentially decaying slope weights, and corrects by
a multistep method over the history h of the layers:

.. math::
    P = y_k + \sum_{j=1}^{s} \alpha (1-\alpha)^{s-j} F_j, \quad
    z = \sum_{i<k} w_{ki} h_i + w_{kk} \mathrm{LN}_k(P), \quad
    h_k = \mathrm{LN}'_k(F(z)), \quad y_{k+1} = \sum_{i \le k} w'_{ki} h_i

Read ``naive``, the paper's equations; ``common/runge_kutta``, the slopes F_j; in ``modules``,
``coefficients``, their weights, and ``layer_history``; ``layer``, the predictor and the corrector;
then ``stacks``, the encoder and the decoders, and ``models``, the registered models.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("PCformer", "Li et al.", 2024, color="olive", arxiv="2411.03042")
