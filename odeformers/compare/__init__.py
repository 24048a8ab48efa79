"""Compares architectures: trains them on the same data, and reports on the trainings.

Each of five values is made from the one before it, and is complete when it is made::

    argv or YAML -> Experiment -> Variant -> Trial -> Run -> Row = a line of results.csv -> report

An :class:`~.experiment.Experiment` says what is compared. A :class:`~.variant.Variant` is one
architecture with all of its options. A :class:`~.trial.Trial` is its cost: its parameters and the
seconds of an update. A :class:`~.run.Run` is a folder whose ``run.yaml`` contains both, with one
seed. A :class:`~.results.rows.Row` is a result, and a report reads only rows. The files:

- ``command.py`` is ``odeformers compare``, from the command line to the report;
- ``experiment.py`` reads what to compare from a recipe in YAML or a folder of data
  (``defaults.py``);
- ``plan.py`` decides what a command trains, given the runs in its folder;
- ``fairness.py`` makes size and effort equal; ``variant.py`` defines everything that determines a
  run, and the words of its commands; ``trial.py`` measures one build and a few updates;
- ``launch.py`` executes runs; ``run.py`` defines their steps; ``restore.py`` restores their files
  that somebody has removed;
- ``results/``: ``rows.py`` defines ``results.csv``, and ``curves.py`` the files that it names;
  ``scores.py`` computes scores from outputs; ``comparison.py`` chooses one setting of each
  architecture; ``statistics.py`` and ``verdict.py`` compare the scores;
- ``report/``: ``sections.py`` writes the tables; ``notes.py`` writes what they cannot show, and the
  verdicts; ``figures.py`` draws pictures, and ``pages.py`` writes Markdown and HTML.

An error in an option, a recipe or a file is a ValueError of one line that names it.
"""
