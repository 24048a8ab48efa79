"""A choice of small measurements, and their comparison with those of an earlier commit."""

from pathlib import Path

from .timing import Row

TOLERANCE = 0.15
LINES = (
    "train --models transformer_prenorm transevolve_fullff_2 macaron_transformer --batch 64 "
    "--rounds 9",
    "encoder --models transformer_prenorm transevolve_fullff_1 transevolve_randomff_1 --heads 8 "
    "--layers 6 --dropout 0.1 --batch 1 --lengths 1024 --vocabulary 1000",
    "infer --batch 2 --lengths 1024 --vocabulary 1000 --rounds 7",
    "classify --batch 2 --lengths 1024 --vocabulary 1000 --dropout 0.1",
    "generate --batch 8 --rounds 7",
    "ode --models torchdiffeq node_transformer --rounds 15",
)


def check(rows: list[Row], earlier_rows: list[dict], path: Path) -> None:
    """Compare ratios with those of an earlier table, which *path* had.

    Raises:
        ValueError: a ratio is below the earlier one by more than :data:`TOLERANCE`; or the earlier
            table has other rows.
    """
    earlier = {_key(row): row["ratio"] for row in earlier_rows}
    now = {_key(vars(row)): row.ratio for row in rows}
    if earlier.keys() != now.keys():
        raise ValueError(f"{path} has other rows: write it anew with --quick --json {path}")
    slower = [
        f"{' '.join(map(str, key))}: {ratio:.2f} where {path} has {earlier[key]:.2f}"
        for key, ratio in now.items()
        if ratio < earlier[key] * (1 - TOLERANCE)
    ]
    if slower:
        raise ValueError("slower than before:\n" + "\n".join(slower))
    print(f"\nno ratio is below that of {path} by more than {TOLERANCE:.0%}")


def _key(row):
    return row["what"], row["length"], row["layers"], row["model"]
