"""Measurements on trained models: ``odeformers analyse``, which needs the extra ``analysis``.

``states`` measures classifiers as section 5 and appendix C of Sengupta et al. (2023) do: the states
of a text (``states.py``), measures of them (``measures.py``), tables (``tables.py``), figures
(``figures.py``), and the command that goes through them (``classifiers.py``). ``attention``
measures attention maps (``maps.py``) over the depth of a model (``attention.py``).
"""
