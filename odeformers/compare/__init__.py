"""Comparisons: trainings of several architectures on the same data, and a report on them.

A command line or a recipe becomes an :class:`~.experiment.Experiment`. A :class:`~.plan.Plan`
makes a :class:`~.variant.Variant` of each architecture and value of a tuned option: a trial
measures it, and its width and updates are chosen for fairness. Then each :class:`~.runs.Run` trains
and evaluates a variant in its own folder, where ``run.yaml`` describes it, and writes rows of
``results.csv``. A report is made of these rows alone. In this order, a file has one of them:

- ``command.py``: ``odeformers compare`` and ``report``, from the words to the page;
- ``experiment.py``: what is compared, of a recipe in YAML or a folder of data (``defaults.py``);
- ``plan.py``: what a command trains, in line with what its folder has begun;
- ``fairness.py``: equal size and effort; ``variant.py``: all that determines a run, and the words
  of its commands; ``trial.py``: what one build and a few updates tell;
- ``launch.py``: where runs are executed; ``runs.py``: their steps;
- ``scores.py``: what logs and outputs come to; ``results.py``: the rows;
- ``verdict.py``: intervals over seeds, and the four words; ``statistics.py``: these and tests over
  texts, of a table; ``notes.py``: what the figures cannot show, and the verdicts with it;
- ``report.py``, ``figures.py``: the page and its pictures.

An error in an option, a recipe or a file is a ValueError whose one line names it.
"""
