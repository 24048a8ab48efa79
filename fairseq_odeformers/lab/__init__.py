"""The laboratory: what experiments need beside the plugin. No other part of the package imports it.

``corpora`` prepares data; ``compare`` trains architectures side by side and reports; ``analysis``
measures what trained models do inside; ``benchmark`` measures speed; ``plots`` draws.
"""
