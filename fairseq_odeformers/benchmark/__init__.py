"""Speed of any architectures, side by side: ``python -m fairseq_odeformers.benchmark``.

A file a measurement: ``train``, ``generate``, ``encoder``, ``infer``, ``ode``, ``orthogonal``. Each
makes of a model a step, a function without arguments. ``subjects`` builds the models, any that
fairseq knows, at one size, where a measurement has none of its own; ``timing`` runs the steps in
turn and says what comes of it.
"""
