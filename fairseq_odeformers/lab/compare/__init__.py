"""Comparisons: trainings of several architectures on the same data, and what is reported of them.

A recipe (``recipe.py``, or ``defaults.py`` for a folder of data) becomes a plan of models
(``plan.py``). A plan becomes runs of commands (``runs.py``), which are jobs (``watch.py``). Their
results are read (``results.py``, ``outcomes.py``) and reported (``report.py``, ``figures.py``,
``pages.py``). ``command.py`` has the command lines; ``commands.py`` is for scripts. What is wrong
with an option, a recipe or a file is a ValueError, whose one line names it.
"""
