"""What is done with a trained model: load it, ask it from Python, classify a file, export it.

Read ``loading``, then ``hub``, the interface from Python, and ``predict``, the command; ``weights``
writes safetensors and ``program`` what ``torch.export`` makes of a model.
"""
