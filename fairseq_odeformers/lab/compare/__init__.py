"""Comparisons: trainings of several architectures on the same data, and a report on them.

From a recipe to a row of the report, each file hands one thing to the next:

- ``command.py``: ``odeformers compare`` and ``report``. :func:`compare` is all that follows, and
  ``overview.py`` shows what it will cost;
- ``experiments.py``: the recipes that a command line asks for, read from YAML by ``recipe.py``;
- ``make_plan.py``: a recipe becomes a plan. Each architecture gets its options and command lines
  (``entry.py``). Its model trains for a few updates (``trial.py``) and must have room for the data
  (``lengths.py``). Equal parameters or equal times change widths or updates (``matching.py``);
- ``plan.py``: the plan is kept beside the runs, together with the plans of earlier commands, which
  ``continue_plan.py`` takes up;
- ``watch.py``: the plan is executed, candidates of tuned options first (``tuning.py``). A run is a
  folder and its commands (``runs.py``), in a process or a job of Slurm (``jobs.py``), where
  ``fairseq_commands.py`` starts them;
- ``results.py``: logs (``logs.py``) and predictions (``outcomes.py``) of runs;
- ``report.py``: results become sections of tables and ``figures.py``, and these ``pages.py``;
  ``caveats.py`` says what they do not bear.

Two files are off this path: ``defaults.py`` makes a recipe for a folder of data, where no YAML file
is given, and ``scoreboard.py`` joins the results of several comparisons.

An error in an option, a recipe or a file is a ValueError whose one line names it.
"""
