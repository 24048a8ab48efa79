"""Uses of a trained model: call it from Python, classify a file with it, export it.

Read ``hub``, the interface from Python, and ``predict``, a command. ``export`` is the command that
writes safetensors or a ``program`` (``torch.export``).
"""
