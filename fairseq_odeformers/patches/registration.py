"""Registered names."""

from fairseq.models import MODEL_REGISTRY

from .guest import binding, is_ours


def register_model(original, name, dataclass=None):
    """fairseq's decorator, for a name that no other class has.

    Raises:
        ValueError: another class is registered by this name, and one of them is of this package.
    """

    def register(cls):
        earlier = MODEL_REGISTRY.get(name, cls)
        if (earlier.__module__, earlier.__qualname__) != (cls.__module__, cls.__qualname__):
            with binding(is_ours(cls, earlier)):
                raise ValueError(
                    f"@register_model({name!r}): {earlier.__module__} has a model of this name; "
                    "choose another"
                )
        return original(name, dataclass)(cls)

    return register
