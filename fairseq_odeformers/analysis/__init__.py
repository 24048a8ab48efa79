"""Measurements on trained classifiers (Sengupta et al. 2023, section 5 and appendix C).

``odeformers analyse CHECKPOINT... --data DATA-BIN --out DIR`` needs the extra
``analysis``. So does ``odeformers analyse attention``, which measures attention
over the depth of encoder-decoders and encoders.
"""
