"""Uses of a trained model: call it from Python, classify a file with it, export it.

Read ``hub``, which loads models, then what it returns: a ``classifier``, or a ``generator`` of
translations or of text; both treat ``texts`` alike. ``predict``, ``translate``
and ``export`` are commands; the last writes safetensors, a ``program`` (``torch.export``), or a
folder that needs no fairseq: see ``deploy``, ``steps``, its programs, and ``run``, which uses them.
"""
