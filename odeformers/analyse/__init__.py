"""The command ``odeformers analyse``: measurements of trained models (extra ``analysis``).

``states`` (``states.py``) measures classifiers as in section 5 and appendix C of Sengupta et al.
(2023). It computes the states of each text (``text_states.py``), measures them (``measures.py``)
and draws the tables of all models (``figures.py``). ``attention`` (``attention.py``) computes
attention maps (``maps.py``) and measures them over the depth of a model, or draws the maps of one
sentence (``sentence.py``) as heat maps (``heat_maps.py``). ``spectra`` (``spectra.py``) computes
eigenvalues of the weights. ``depth`` (``depth.py``) scores models with different numbers of steps
or tolerances. ``command.py`` defines the command line, and ``result.py`` writes tables and figures.
"""
