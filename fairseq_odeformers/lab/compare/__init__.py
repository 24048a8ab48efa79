"""Comparisons: trainings of several architectures on the same data, and a report on them.

In the order of an experiment:

- ``command.py``: the command lines of ``compare`` and ``report``;
- ``experiments.py``: the recipes that a command line asks for, which ``recipe.py`` reads from YAML,
  or ``defaults.py`` makes for a folder of data;
- ``plan.py``: a recipe becomes a plan, in a child process (``child.py``). ``splits.py`` finds the
  test sets. Each architecture is given options (``entry.py``) and a size (``width.py``). Its model
  must have room for the data (``lengths.py``), train for a few updates (``trial.py``) and predict
  (``evaluation.py``). For equal time all are timed again (``budget.py``);
- ``runs.py``: a plan becomes runs of commands; ``watch.py`` submits them as jobs (``jobs.py``) and
  shows their progress; ``tuning.py`` chooses between candidates;
- ``report.py``: the results of runs (``results.py``, ``logs.py``, ``outcomes.py``) become tables,
  figures (``figures.py``) and pages (``pages.py``); ``scoreboard.py`` joins several comparisons.

``fairseq_commands.py`` starts commands of fairseq, also for scripts. An error in an option, a
recipe or a file is a ValueError whose one line names it.
"""
