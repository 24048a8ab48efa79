"""Measurements on trained classifiers (Sengupta et al. 2023, section 5 and appendix C).

``python -m fairseq_odeformers.analysis CHECKPOINT... --data DATA-BIN --out DIR`` needs the extra
``analysis``. So does ``python -m fairseq_odeformers.analysis.attention``, which measures attention
over the depth of encoder-decoders and encoders.
"""
