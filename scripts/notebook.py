"""Run a notebook and write its outputs into it, for the site to show.

    rm -rf demo-out && .venv/bin/python scripts/notebook.py examples/tour.ipynb

Pictures are reduced to 256 colours, and times are left out.
"""

import base64
import io
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image


def main(path: Path) -> None:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    metadata = notebook.metadata.copy()
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook, resources=resources, record_timing=False, coalesce_streams=True
    ).execute()
    notebook.metadata = metadata  # without the version of Python
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = smaller(data["image/png"])
    nbformat.write(notebook, path)


def smaller(png: str) -> str:
    """A picture in base64 with at most 256 colours."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    file = io.BytesIO()
    picture.quantize(256).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
