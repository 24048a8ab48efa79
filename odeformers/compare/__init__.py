"""Compare architectures: train them on the same data, and report on the runs.

Each object is made from the one before it::

    argv or YAML -> Experiment -> Variant -> Estimate -> Run -> Row -> report

An :class:`~.experiment.Experiment` says what is compared. A :class:`~.variant.Variant` is one
architecture with all of its options. An :class:`~.estimate.Estimate` is what its training costs:
its parameters, and the seconds of an update. A :class:`~.run.Run` is a folder whose ``run.yaml``
contains both, with one seed. A :class:`~.results.rows.Row` is a result, a line of ``results.csv``;
a report reads only rows. A comparison uses the files in this order:

- ``command.py`` runs ``odeformers compare``, from the command line to the report;
- ``recipe.py`` reads a recipe in YAML, or makes one for a folder of data, and ``experiment.py``
  makes an experiment of it and of the command line;
- ``plan.py`` decides what a command trains, given the runs in its folder; it checks that the
  command agrees with them, and prints the plan;
- ``variant.py`` defines everything that determines a run, and the words of its commands;
- ``fairness.py`` makes sizes equal, and ``estimate.py`` measures costs and makes effort equal;
- ``launch.py`` executes runs on this machine or a cluster;
- ``run.py`` defines the steps of a run and the files in its folder; its first step runs
  ``fairseq-train`` by ``training.py``, and ``outcome.py`` scores the outputs of the evaluations;
- ``results/``: ``rows.py`` defines ``results.csv`` and what a report shows of it; ``curves.py``
  defines the files that rows name; ``intervals.py`` compares scores over seeds, and
  ``statistics.py`` also over texts;
- ``report/``: ``sections.py`` writes the report; ``judge.py`` gives the verdicts, and ``notes.py``
  says what the scores do not show; ``figures.py`` draws pictures, and ``pages.py`` formats sections
  as Markdown and HTML.

``numbers.py`` formats numbers for all of them.

Invalid options, recipes and files raise an InputError, and missing files a FileNotFoundError, with
a one-line message that names the input.
"""
