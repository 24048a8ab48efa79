"""Comparisons: trainings of several architectures on the same data, and a report on them.

A command line or a recipe becomes an :class:`~.experiment.Experiment`. A :class:`~.plan.Plan`
makes a :class:`~.variant.Variant` of each architecture and value of a tuned option: a trial
measures it, and its width and updates are chosen for fairness. Then each :class:`~.run.Run` trains
and evaluates a variant in its own folder, where ``run.yaml`` describes it, and writes rows of
``results.csv``. A report is made of these rows alone. In this order, a file has one of them:

- ``command.py``: ``odeformers compare``, from the words to the page;
- ``experiment.py``: what is compared, of a recipe in YAML or a folder of data (``defaults.py``);
- ``plan.py``: what a command trains, in line with what its folder has begun;
- ``fairness.py``: equal size and effort; ``variant.py``: all that determines a run, and the words
  of its commands; ``trial.py``: what one build and a few updates tell;
- ``launch.py``: where runs are executed; ``run.py``: their steps;
- ``results/``: ``rows.py`` has ``results.csv``, ``curves.py`` the files that it names,
  ``scores.py`` what outputs come to, ``comparison.py`` one setting of each architecture,
  ``statistics.py`` and ``verdict.py`` what the scores say of differences;
- ``report/``: ``sections.py`` has the tables, ``notes.py`` what they cannot show and the verdicts
  with it, ``figures.py`` and ``pages.py`` pictures, Markdown and HTML.

An error in an option, a recipe or a file is a ValueError whose one line names it.
"""
