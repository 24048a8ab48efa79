"""Comparisons: trainings of several architectures on the same data, and a report on them.

In the order of an experiment:

- ``command.py``: the command lines of ``compare`` and ``report``;
- ``experiments.py``: the recipes that a command line asks for, which ``recipe.py`` reads from YAML,
  or ``defaults.py`` makes for a folder of data;
- ``plan.py``: a recipe becomes a plan, of ``entry.py``, ``trial.py``, ``evaluation.py``,
  ``width.py``, ``budget.py`` and ``splits.py``, in a process of its own (``child.py``);
- ``runs.py``: a plan becomes runs of commands; ``jobs.py`` has their jobs, which ``watch.py``
  submits and watches; ``tuning.py`` chooses between candidates;
- ``report.py``: the results of runs (``results.py``, ``logs.py``, ``outcomes.py``) become tables,
  figures (``figures.py``) and pages (``pages.py``).

``fairseq_commands.py`` starts commands of fairseq, also for scripts. An error in an option, a
recipe or a file is a ValueError whose one line names it.
"""
