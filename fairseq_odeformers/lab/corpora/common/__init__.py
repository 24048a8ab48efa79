"""What the corpora share: where they are published, and how their examples are written.

In reading order: ``corpus``, ``source``, the writers ``pairs``, ``labels`` (with ``texts``, which
divides labelled text into word pieces) and ``lines``, then ``checks``, which looks at what has been
written, ``command``, ``log``, ``tokens`` and ``processes``.
"""
