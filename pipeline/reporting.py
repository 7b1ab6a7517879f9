"""Makes what a person looks at after a run: the sample picture and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.run_report import render as page

#: Images a row of the sample picture, and rows at most where each row is one class.
_COLUMNS = 10
_MAX_CLASS_ROWS = 20


def publish(folder: Path, summary: dict[str, Any]) -> None:
    """Draws samples from the run's candidate model, if it got that far, and writes the page.

    Args:
      folder: the run's folder.
      summary: the run's summary; `samples` is filled in.
    """
    if summary["model"]:
        summary["samples"] = str(_draw_samples(summary["model"], folder / "samples.png"))
    page.render(folder, summary)


def _draw_samples(model_dir: str, path: Path) -> Path:
    import numpy as np

    from trainer import grid, sampling

    sampler = sampling.Sampler(model_dir)
    if sampler.conditional:
        rows = [
            sampler.draw(_COLUMNS, seed=0, label=name)
            for name in sampler.class_names[:_MAX_CLASS_ROWS]
        ]
        images = np.concatenate(rows)
    else:
        images = sampler.draw(_COLUMNS * _COLUMNS, seed=0)
    grid.write(images, columns=_COLUMNS, path=str(path))
    return path
