"""Uses of a trained model: calls from Python, classification of a file, and export.

``untrained`` builds models without data for training loops in Python.

Read ``hub``, the loaders, then the objects that they return: a ``classifier``, or a ``generator``
of translations or text. Both follow the rules of ``texts``. The commands ``predict``,
``translate`` and ``export`` use these modules. ``export`` writes safetensors, a ``program``
(``torch.export``), or a folder that needs no fairseq. ``deploy`` writes this folder, ``steps``
defines its programs, and ``run`` calls them.
"""
