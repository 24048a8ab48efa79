"""Shared code of the corpora: downloading or finding their files, and writing their examples.

In reading order: ``command``, ``corpus``, ``tables``, the writers ``pairs``, ``labels`` and
``lines``, then ``tokens``, used by the writers, and ``checks`` for the written data.
"""
