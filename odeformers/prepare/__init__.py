"""Preparation of the corpora that the experiments run on, by ``odeformers prepare``.

Each file is a command and has what is its own: a :class:`~.common.corpus.Corpus` has downloads
(URLs, files, checksums), a function that reads the examples of each split, and one of three
writers, :class:`~.common.pairs.Pairs`, :class:`~.common.labels.Labels` or
:class:`~.common.lines.Lines`. What they share is in ``common``.

An interrupted preparation resumes with the step that it was in. A step is repeated only if its
inputs have changed, and no result depends on the number of workers. A file that is missing,
damaged, not UTF-8 or not as published raises a ValueError that names it.
"""
