"""Uses of a trained model: load it, call it from Python, classify a file with it, export it.

Read ``loading``; then ``hub``, the interface from Python, and ``predict``, a command. ``export`` is
the command that writes ``weights`` (safetensors) or a ``program`` (``torch.export``).
"""
