from pathlib import Path

from setuptools import find_packages, setup

IMAGES = ["pillow>=10.1"]
WORD_PIECES = ["tokenizers>=0.20"]
CORPORA = [*IMAGES, "sacremoses", "subword-nmt", *WORD_PIECES]

setup(
    name="fairseq-odeformers",
    version="0.1.0",
    description="Transformers derived from ODE solvers, as a fairseq plugin",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    packages=find_packages(include=["fairseq_odeformers", "fairseq_odeformers.*"]),
    python_requires=">=3.10,<3.14",
    install_requires=[
        # Two distributions of the same module: fairseq imports on Python <= 3.10 only.
        'fairseq==0.12.2; python_version < "3.11"',
        'fairseq-fixed==0.12.3.1; python_version >= "3.11"',
        "filelock>=4.1",
        "numpy>=1.26,<3",
        "omegaconf",
        "sacrebleu",
        "scipy>=1.7",
        "torch>=2.3",
        "torchdiffeq>=0.2.5,<0.3",
        "tqdm",
    ],
    entry_points={"console_scripts": ["odeformers=fairseq_odeformers.cli:main"]},
    extras_require={
        "analysis": ["matplotlib", *IMAGES, "scikit-learn", *WORD_PIECES],
        "compare": ["markdown", "matplotlib", "pyyaml", "rich", "sacremoses", "submitit>=1.5"],
        "corpora": CORPORA,
        "export": ["safetensors>=0.4"],
        "plots": ["matplotlib"],
        "test": [
            "pytest",
            "pytest-xdist",
            "ruff",
            "scikit-learn",
            "setuptools",
            "tensorboardX",
            "wheel",
        ],
    },
)
