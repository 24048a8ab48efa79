r"""YuriiFormer and TMMFormer: a Transformer's sub-layers as steps of accelerated gradient methods.

Zimin, Polyanskiy and Rigollet (2026), "YuriiFormer: A Suite of Nesterov-Accelerated Transformers"
(https://arxiv.org/abs/2601.23236); Gai, Huang and Wu (2026), "Momentum Streams for
Optimizer-Inspired Transformers" (https://arxiv.org/abs/2605.24425).

As in a Transformer, a layer splits an ODE into a step of attention, then a step of the FFN
(Lie-Trotter). A velocity v passes through all steps together with the state x. For O = attention,
then O = FFN:

.. math::
    g = O(\mathrm{LN}(x + \mu v)), \quad v' = \mathrm{LN}_v(\beta v + \gamma g), \quad
    x' = x + \nu v'

Each step of each layer learns its own scalars: mu and beta in (0, 1), gamma > 0. YuriiFormer has
nu = 1, like Nesterov's method with the negative gradient of an energy as O. TMMFormer learns
nu > 0.

This implementation follows the second paper's code for both models; the first paper's code was not
found.

Read ``naive``, the equations; ``layer``, the step, the layers, and the block that passes the
velocity from layer to layer; ``stacks``, the encoder, the decoder, and the embedding from which the
velocity may start; then ``models``, the registered models.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("YuriiFormer", "Zimin et al.", 2026, color="teal", arxiv="2601.23236")
