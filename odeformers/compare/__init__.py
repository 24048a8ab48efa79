"""Compares architectures: trains them on the same data, and reports on the trainings.

Each of five values is made from the one before it, and is complete when it is made::

    argv or YAML -> Experiment -> Variant -> Trial -> Run -> Row = a line of results.csv -> report

An :class:`~.experiment.Experiment` says what is compared. A :class:`~.variant.Variant` is one
architecture with all of its options. A :class:`~.trial.Trial` is its cost: its parameters and the
seconds of an update. A :class:`~.run.Run` is a folder whose ``run.yaml`` contains both, with one
seed. A :class:`~.results.rows.Row` is a result, and a report reads only rows. The files:

- ``command.py`` is ``odeformers compare``, from the command line to the report;
- ``experiment.py`` makes an experiment of a command line and a recipe; ``recipe.py`` reads a recipe
  in YAML, or makes one for a folder of data;
- ``plan.py`` decides what a command trains, given the runs in its folder, checks that the command
  agrees with them, and prints the plan;
- ``variant.py`` defines everything that determines a run, and the words of its commands;
  ``fairness.py`` makes sizes equal; ``trial.py`` measures one build and a few updates, and makes
  effort equal;
- ``launch.py`` executes runs; ``run.py`` defines their steps and their folders, and restores files
  that somebody has removed; ``outcome.py`` scores their outputs;
- ``results/``: ``rows.py`` defines ``results.csv`` and chooses one setting of each architecture;
  ``curves.py`` defines the files that rows name;
  ``intervals.py`` compares scores over seeds, and ``statistics.py`` also over texts;
- ``report/``: ``judge.py`` gives the verdicts, and ``notes.py`` says what the scores do not show;
  ``sections.py`` writes the tables, ``figures.py`` draws pictures, and ``pages.py`` writes Markdown
  and HTML;
- ``numbers.py`` formats numbers.

An error in an option, a recipe or a file is a ValueError of one line that names it.
"""
