"""Measurements on trained models: ``odeformers analyse``, which needs the extra ``analysis``.

``states`` measures classifiers as section 5 and appendix C of Sengupta et al. (2023) do: the states
of a text (``states.py``), measures of them (``measures.py``), the tables of a model
(``classifiers.py``) and their figures (``figures.py``). ``attention`` takes attention maps
(``maps.py``) and measures them over the depth of a model (``attention.py``), or draws those of one
sentence (``sentence.py``). ``result.py`` writes what each has found.
"""
