"""The laboratory: what experiments need beside the plugin. No other part of the package imports it.

``corpora`` prepares data; ``compare`` trains architectures side by side and reports; ``analysis``
measures what trained models do inside; ``check`` tests what every architecture must do;
``benchmark`` measures speed; ``plots`` draws. ``parsers`` has fairseq's parsers with errors of one
line, and ``dataless`` tasks without data, for the models that ``check`` and ``benchmark`` build.
"""
