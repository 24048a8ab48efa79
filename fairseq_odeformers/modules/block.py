"""The base of blocks that take the place of a layer in fairseq's Transformer."""

from torch import Tensor, nn


class Block(nn.Module):
    """Base of a module that takes the place of a layer in fairseq's encoder or decoder.

    fairseq's stacks ask a layer for more than ``forward``: both of the supported versions let it
    rename the parameters of older checkpoints, and the encoder of 0.12.2 asks whether it has an
    inference kernel.
    """

    load_to_BT = False

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Leave a checkpoint as it is: there is no older layout."""
