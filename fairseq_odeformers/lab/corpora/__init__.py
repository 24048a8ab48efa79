"""Preparation of the corpora that the experiments run on, by ``odeformers prepare``.

There is a file for each corpus. They share ``archives`` (downloads, and how archives are read),
``tokens``, ``command``, and for translation ``parallel_text`` and ``translation``.

An interrupted preparation resumes with the step that it was in. A step is repeated only if its
inputs have changed, and no result depends on the number of workers. A file that is missing,
damaged, not UTF-8 or not as published raises a ValueError that names it.
"""
