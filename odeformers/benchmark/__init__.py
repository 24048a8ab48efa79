"""Speed of any architectures, side by side: ``odeformers benchmark``.

``measurements.py`` has the table of measurements; the longest one is in ``memory.py``.
``arguments.py`` declares the sizes that ``models.py`` builds models in, of any architecture that
fairseq knows. ``timing.py`` runs steps in turn and makes the rows of a table.
"""
