"""Comparisons: trainings of several architectures on the same data, and a report on them.

Five values follow from each other, and each is complete when it is made::

    argv or YAML -> Experiment -> Variant -> Trial -> Run -> Row = a line of results.csv -> report

An :class:`~.experiment.Experiment` says what is compared. A :class:`~.variant.Variant` is one
architecture with every option, a :class:`~.trial.Trial` what it costs: its parameters and the
seconds of an update. A :class:`~.run.Run` is a folder whose ``run.yaml`` has both, with one seed. A
:class:`~.results.rows.Row` is what came out, and a report reads only rows. The files:

- ``command.py``: ``odeformers compare``, from the words to the page;
- ``experiment.py``: what to compare, from a recipe in YAML or a folder of data (``defaults.py``);
- ``plan.py``: what a command trains, given the runs in its folder;
- ``fairness.py``: equal size and effort; ``variant.py``: all that determines a run, and the words
  of its commands; ``trial.py``: what one build and a few updates tell;
- ``launch.py``: where runs are executed; ``run.py``: their steps; ``restore.py``: files of theirs
  that somebody has removed;
- ``results/``: ``rows.py`` has ``results.csv``, ``curves.py`` the files that it names,
  ``scores.py`` what outputs come to, ``comparison.py`` one setting of each architecture,
  ``statistics.py`` and ``verdict.py`` what the scores say of differences;
- ``report/``: ``sections.py`` has the tables, ``notes.py`` what they cannot show and the verdicts
  with it, ``figures.py`` and ``pages.py`` pictures, Markdown and HTML.

An error in an option, a recipe or a file is a ValueError whose one line names it.
"""
