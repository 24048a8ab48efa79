"""The properties that every architecture must have, for ``odeformers check`` and for the tests.

Read ``properties``, which lists them; ``subject``, a small model with random texts for the tests;
``location``, which finds the layer at fault; and ``command``.
"""
