"""Preparation of the corpora that the experiments run on, by ``odeformers prepare``.

There is a file for each corpus. They share ``archives`` (what is published, fetched and read),
``tokens``, ``command``, and for translation ``parallel_text`` and ``translation``.

A preparation that was interrupted resumes with the step it was in. Steps whose inputs and options
have not changed are not repeated, and no result depends on the number of workers. A file that is
missing, damaged, not UTF-8 or not as published is a ValueError that names it.
"""
