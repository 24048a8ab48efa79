"""The layout of checkpoints of the code that the authors of the Macaron Net published."""


class ReleasedLayout:
    """Mixin of a layer of fairseq's Transformer that loads the parameters of the authors' code.

    That is a copy of fairseq 0.6, whose attention has queries, keys and values in one matrix.
    """

    # LayerNorms that had another name, and what it was.
    old_layer_norms: dict[str, str] = {}

    def upgrade_state_dict_named(self, state_dict, name):
        """Rename the LayerNorms; fairseq's own upgrade divides the matrix of the attention.

        Raises:
            ValueError: a parameter is missing or has another shape; it is named as in the
                checkpoint.
        """
        prefix = f"{name}."
        keys = [key[len(prefix) :] for key in state_dict if key.startswith(prefix)]
        # fairseq calls this twice, and an encoder's LayerNorms have new names the second time.
        mark = "layer_norms." if self.old_layer_norms else "in_proj_"
        if not any(mark in key for key in keys):
            return
        for key, shape in self._old_shapes().items():
            if key not in keys:
                raise ValueError(f"the checkpoint has no {prefix}{key}, which its layout asks for")
            if state_dict[prefix + key].shape != shape:
                raise ValueError(
                    f"{prefix}{key} of the checkpoint has shape "
                    f"{tuple(state_dict[prefix + key].shape)}, but the model needs {tuple(shape)}; "
                    "compare the widths in the checkpoint's arguments"
                )
        for new, old in self.old_layer_norms.items():
            for parameter in ("weight", "bias"):
                value = state_dict.pop(f"{prefix}{old}.{parameter}")
                state_dict[f"{prefix}{new}.{parameter}"] = value

    def _old_shapes(self):
        """Name and shape of every parameter of the layer in the authors' code."""
        shapes = {}
        for key, value in self.state_dict().items():
            module, _, parameter = key.rpartition(".")
            attention, _, projection = module.rpartition(".")
            if projection in ("k_proj", "v_proj"):
                continue
            if projection == "q_proj":
                shapes[f"{attention}.in_proj_{parameter}"] = (3 * len(value), *value.shape[1:])
            else:
                shapes[f"{self.old_layer_norms.get(module, module)}.{parameter}"] = value.shape
        return shapes
