"""Pictures for the page: read from the run's folder, laid out, turned into data URIs."""

from __future__ import annotations

import base64
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from components.run_report import files
from trainer import grid

PICTURES_FILE = "pictures.npz"
#: What the rows of the pictures in the run's folder show.
ROWS_FILE = "rows.json"
#: Sample grids of the training that the page shows.
MAX_STEPS = 8
_STEP = re.compile(r"step-(\d+)\.png")
#: Columns of the grids of real and generated images.
_COLUMNS = 8
_Item = TypeVar("_Item")


def data_uri(kind: str, content: bytes) -> str:
    """The content as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """At most `count` of the items, the first and the last among them, evenly spread."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def step_files(folder: Path) -> list[tuple[int, Path]]:
    """The training's sample grids in a folder, at most MAX_STEPS: step and file, by step."""
    found = ((_STEP.fullmatch(path.name), path) for path in folder.glob("step-*.png"))
    return spread(sorted((int(match[1]), path) for match, path in found if match), MAX_STEPS)


def read(folder: Path) -> dict[str, Any]:
    """Everything that is to be seen in a run's folder, for the template.

    Args:
      folder: the run's folder.

    Returns:
      `samples`, `interpolation`: {uri, rows} or None; `steps`: (step, uri) by step; `compared`:
      {real, generated, count, labelled} or None; `closest`: {pairs, quantile} or None.
    """
    rows = files.read_json(folder / ROWS_FILE)
    arrays = _read_arrays(folder / PICTURES_FILE)
    return {
        "samples": _file(folder / "samples.png", rows.get("samples")),
        "interpolation": _file(folder / "interpolation.png", rows.get("interpolation")),
        "steps": [
            (step, data_uri("image/png", path.read_bytes()))
            for step, path in step_files(folder / "samples")
        ],
        "compared": _compared(arrays),
        "closest": _closest(arrays),
    }


def _file(path: Path, rows: Sequence[str] | None) -> dict[str, Any] | None:
    if not path.exists():
        return None
    return {"uri": data_uri("image/png", path.read_bytes()), "rows": rows or []}


def _read_arrays(path: Path) -> Mapping[str, np.ndarray]:
    """Arrays by name; none where the file is not there or not whole."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return {}


def _compared(arrays: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """Real and generated images of the same examples, sorted by class."""
    if not arrays.keys() >= {"real", "real_label", "generated"} or not len(arrays["real"]):
        return None
    labels = arrays["real_label"]
    order = np.argsort(labels, kind="stable")
    return {
        "real": _grid(arrays["real"][order], _COLUMNS),
        "generated": _grid(arrays["generated"][order], _COLUMNS),
        "count": len(order),
        "labelled": bool((labels >= 0).all()),
    }


def _closest(arrays: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """Samples beside the training images they are nearest to, nearest first."""
    names = {"closest", "closest_training", "closest_distance"}
    if not arrays.keys() >= names or not len(arrays["closest"]):
        return None
    pairs = [
        {"uri": _grid(np.stack(images), 2), "distance": float(distance)}
        for *images, distance in zip(
            arrays["closest"], arrays["closest_training"], arrays["closest_distance"], strict=True
        )
    ]
    quantile = float(arrays.get("heldout_nearest_quantile", np.nan))
    return {"pairs": pairs, "quantile": quantile if np.isfinite(quantile) else None}


def _grid(images: np.ndarray, columns: int) -> str:
    """uint8 [N, H, W, C] as one PNG, a pixel a pixel: the page enlarges it."""
    canvas = grid.tile(images, columns)
    out = io.BytesIO()
    Image.fromarray(canvas[:, :, 0] if canvas.shape[2] == 1 else canvas).save(
        out, format="PNG", optimize=True
    )
    return data_uri("image/png", out.getvalue())
