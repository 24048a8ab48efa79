"""The command ``odeformers benchmark``: the speed of architectures side by side.

``measurements.py`` lists the measurements; the longest of them is in ``memory.py``.
``arguments.py`` declares the options for sizes, with which ``models.py`` builds models of any
architecture that fairseq knows. ``timing.py`` runs steps in turn and makes the rows of a table.
"""
