"""Comparisons: trainings of several architectures on the same data, and a report on them.

Each file hands one thing to the next, so they are read in this order:

- ``command.py``: ``odeformers compare`` and ``report``. :func:`compare` is all that follows;
- ``recipe.py``: what a YAML file describes. ``experiments.py`` changes it by the command line, and
  prepares its data; ``defaults.py`` makes one for a folder of data;
- ``make_plan.py``: a recipe becomes a plan. Each architecture gets its options and command lines
  (``entry.py``) and its width (``matching.py``); its model must have room for the data
  (``lengths.py``), train for a few updates and predict (``trial.py``);
- ``plan.py``: what is kept of that beside the runs, and what later commands may add;
- ``tuning.py``: a plan is executed, the candidates of tuned options first. A run is a folder and
  its commands (``runs.py``), watched (``watch.py``) while other processes work (``jobs.py``);
- ``results.py``: logs (``logs.py``) and predictions (``outcomes.py``) of runs;
- ``report.py``: results become sections of tables and ``figures.py``, and these ``pages.py``.

``scoreboard.py`` joins the results of several comparisons. ``fairseq_commands.py`` starts commands
of fairseq, also for scripts. An error in an option, a recipe or a file is a ValueError whose one
line names it.
"""
