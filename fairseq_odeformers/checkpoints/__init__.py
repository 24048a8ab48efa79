"""Checkpoints: what is in a file, and whether a model may be built from it.

Read ``trust``, the checks before a model is built; ``load``, a trained model with its task;
``weights``, the same content as safetensors; and ``average``, the mean of several.
"""
