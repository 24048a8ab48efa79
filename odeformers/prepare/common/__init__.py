"""Shared code of the corpora: downloading or finding their files, and writing their examples.

Read ``command``, ``corpus``, ``tables``, the writers ``pairs``, ``labels`` and ``lines``, then
``tokens``, which the writers use, and ``checks``, which checks what they have written. ``settings``
compares a preparation with the earlier one in its folder.
"""
