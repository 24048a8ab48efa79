"""Registered names."""

from fairseq.models import MODEL_REGISTRY


def register_model(original, name, dataclass=None):
    """fairseq's decorator, for a name that no other class has.

    Raises:
        ValueError: another class is registered by this name.
    """

    def register(cls):
        earlier = MODEL_REGISTRY.get(name, cls)
        if (earlier.__module__, earlier.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"@register_model({name!r}): {earlier.__module__} has a model of this name; choose "
                "another"
            )
        return original(name, dataclass)(cls)

    return register
