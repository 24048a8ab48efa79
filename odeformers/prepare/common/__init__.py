"""What the corpora share: where they are published, and how their examples are written.

In reading order: ``command``, ``corpus``, ``tables``, the writers ``pairs``, ``labels`` and
``lines``, with ``tokens`` below them, and ``checks``, which looks at what they have written.
"""
