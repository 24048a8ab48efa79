"""Speed of any architectures, side by side: ``odeformers benchmark``.

``measurements.py`` has the table of measurements; ``ode.py`` and ``memory.py`` are the two that
need more than a few lines. ``models.py`` builds the models, any that fairseq knows, at one size.
``timing.py`` runs steps in turn and makes the rows of a table. ``growth.py`` draws such tables.
"""
