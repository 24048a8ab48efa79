"""Hydra's functions to compose configurations, for both versions that fairseq supports."""

try:
    from hydra import compose, initialize_config_dir

    AS_FAIRSEQ = {"version_base": "1.1"}
except ImportError:  # hydra 1.0, of fairseq 0.12.2
    from hydra.experimental import compose, initialize_config_dir

    AS_FAIRSEQ = {}

__all__ = ["AS_FAIRSEQ", "compose", "initialize_config_dir"]
