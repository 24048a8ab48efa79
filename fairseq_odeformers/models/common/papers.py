"""Which paper is an architecture of?"""

from fairseq.models import ARCH_MODEL_REGISTRY

from .sizes import default_options

# By the folders of models.
PAPERS = {
    "macaron": "Macaron Net (Lu et al. 2019)",
    "transevolve": "TransEvolve (Dutta et al. 2021)",
    "transject": "TransJect (Sengupta et al. 2023)",
    "node_transformer": "N-ODE Transformer (Baier-Reinio and De Sterck 2020)",
    "ode_transformer": "ODE Transformer (Li et al. 2022)",
    "diffeq_transformer": "DiffEqFormer (Tong et al. 2025)",
    "pcformer": "PCformer (Li et al. 2024)",
    "baselines": "baselines",
}
OWN = "your own"  # in place of a paper, for what a plugin or fairseq registers


def paper_of(arch: str) -> str:
    """The paper that an architecture of this package is of; :data:`OWN` for others."""
    package, *folders = ARCH_MODEL_REGISTRY[arch].__module__.split(".")
    return PAPERS[folders[1]] if package == __name__.split(".")[0] else OWN


def family_of(arch: str) -> str:
    """The family of an architecture, whatever its task, such as ``TransEvolve``."""
    if arch not in ARCH_MODEL_REGISTRY or paper_of(arch) == OWN:
        return arch  # perhaps a plugin's that this process has not loaded
    if paper_of(arch) != PAPERS["baselines"]:
        return paper_of(arch).partition(" (")[0]
    family, options = ARCH_MODEL_REGISTRY[arch].family, default_options(arch)
    prenorm = any(options.get(f"{side}_normalize_before") for side in ("encoder", "decoder"))
    return f"pre-norm {family}" if prenorm else family
