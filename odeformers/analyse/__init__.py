"""Measurements on trained models: ``odeformers analyse``, which needs the extra ``analysis``.

``states`` (``states.py``) measures classifiers as section 5 and appendix C of Sengupta et al.
(2023) do. It takes the states of each text (``text_states.py``), measures them (``measures.py``)
and draws the tables of all models (``figures.py``). ``attention`` (``attention.py``) takes
attention maps (``maps.py``) and measures them over the depth of a model, or draws maps of one
sentence (``sentence.py``) as heat maps (``heat_maps.py``). ``spectra`` (``spectra.py``) has
eigenvalues of the weights. ``command.py`` has the command line, and ``result.py`` writes tables and
figures.
"""
