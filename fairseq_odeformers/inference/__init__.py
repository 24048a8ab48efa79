"""Uses of a trained model: calls it from Python, classifies a file with it, exports it.

Read ``hub`` first, which loads models, then what it returns: a ``classifier``, or a ``generator``
of translations or text. Both follow the rules of ``texts``. The commands ``predict``,
``translate`` and ``export`` use these modules. ``export`` writes safetensors, a ``program``
(``torch.export``), or a folder that needs no fairseq. ``deploy`` writes this folder, ``steps``
defines its programs, and ``run`` calls them.
"""
