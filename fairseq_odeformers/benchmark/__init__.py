"""Speed of any architectures, side by side: ``odeformers benchmark``.

A file a measurement. Most make of a model a step, a function without arguments, to be timed:
``train`` (of classifiers called ``classify``), ``generate``, ``encoder``, ``infer``, ``startup``,
``ode``, ``orthogonal``; ``memory`` and ``state`` count bytes. ``subjects`` builds the models, any
that fairseq knows, at one size, where a measurement has none of its own; ``timing`` runs the steps
in turn and says what comes of it. ``quick`` is a choice of measurements, to compare commits by, and
``growth`` draws figures against lengths or layers.
"""
