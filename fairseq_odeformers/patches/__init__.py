"""All changes that this package makes to fairseq, torch, torch_xla, numpy, warnings and logging.

``fairseq_odeformers`` calls :func:`apply` once, before anything else. ``table`` lists the changes,
each with its reason and the event after which it can be removed. The other files contain the
functions that make the changes; importing a file changes nothing.
"""


def apply() -> None:
    """Make all changes of :data:`~fairseq_odeformers.patches.table.PATCHES`."""
    from .warnings import import_fairseq

    import_fairseq()  # the other files import it, and it sets up logging
    from .table import PATCHES

    for patch in PATCHES:
        patch.apply()
