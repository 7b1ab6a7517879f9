"""Makes what a person looks at after a run: pictures, and the page they are on.

Whatever needs TensorFlow, ML Metadata or an artifact becomes a small file in the run's folder:
the page is made from those files alone.
"""

from __future__ import annotations

import datetime
import json
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.run_report import dataset, making, pictures, scores
from components.run_report import render as page
from pipeline import history, lineage

#: Images a row of the sample picture, and rows at most where each row is one class.
_COLUMNS = 10
_MAX_CLASS_ROWS = 20
#: Pairs of latents that are interpolated between.
_ARCS = 3
_METRICS_FILE = "metrics.jsonl"


def publish(folder: Path, summary: dict[str, Any]) -> None:
    """Gathers the pictures and facts of a run in its folder, and writes the page.

    What cannot be had is told in the log and left out: a page with a gap is better than none.

    Args:
      folder: the run's folder.
      summary: the run's summary; `samples` is filled in.
    """
    root = folder.parent.parent
    if summary["model"] and _attempt(lambda: _draw(summary["model"], folder)):
        summary["samples"] = str(folder / "samples.png")
    _attempt(lambda: _copy_evaluation(folder, summary))
    _attempt(lambda: _copy_training(folder, summary))
    _attempt(lambda: _write(folder / dataset.DATA_FILE, _data(summary)))
    _attempt(
        lambda: _write(
            folder / making.LINEAGE_FILE, lineage.gather(root / "metadata.sqlite", folder.name)
        )
    )
    render(folder, summary)


def render(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Writes the page of a run from the files in its folder, and from the runs before it.

    Args:
      folder: the run's folder.
      summary: the run's summary.

    Returns:
      Path of the page.
    """
    runs: list[dict[str, Any]] = []
    try:
        runs = history.runs(folder.parent.parent)
    except history.HistoryError as error:
        print(f"the report has no history: {error}", file=sys.stderr)
    return page.render(folder, summary, runs)


def _attempt(step: Callable[[], None]) -> bool:
    """Whether a step went through; what stopped it is in the log."""
    try:
        step()
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return False
    return True


def _draw(model_dir: str, folder: Path) -> None:
    """Draws from the exported model, and notes what each row shows."""
    from trainer import grid, sampling

    sampler = sampling.Sampler(model_dir)
    names = sampler.class_names if sampler.conditional else ()
    rows = list(names[:_MAX_CLASS_ROWS])
    grid.write(_samples(sampler, rows), columns=_COLUMNS, path=str(folder / "samples.png"))
    arcs = sampler.interpolate(_ARCS, _COLUMNS, seed=0)
    grid.write(arcs, columns=_COLUMNS, path=str(folder / "interpolation.png"))
    shown = {
        "samples": rows,
        "interpolation": [names[i % len(names)] for i in range(_ARCS)] if names else [],
    }
    _write(folder / pictures.ROWS_FILE, shown)


def _samples(sampler: Any, rows: list[str]) -> Any:
    import numpy as np

    if not rows:
        return sampler.draw(_COLUMNS * _COLUMNS, seed=0)
    return np.concatenate([sampler.draw(_COLUMNS, seed=0, label=name) for name in rows])


def _copy_evaluation(folder: Path, summary: Mapping[str, Any]) -> None:
    """Copies what the Evaluator drew, and every reason of its verdict."""
    evaluation = _output(summary, "Evaluator", "evaluation")
    for name in (pictures.PICTURES_FILE, scores.VERDICT_FILE):
        if evaluation and (evaluation / name).exists():
            shutil.copy(evaluation / name, folder)


def _copy_training(folder: Path, summary: Mapping[str, Any]) -> None:
    """Copies the training's curves, and those of its sample grids that the page shows."""
    training = _training_folder(folder.parent.parent, summary)
    if training is None:
        return
    if (training / _METRICS_FILE).exists():
        shutil.copy(training / _METRICS_FILE, folder)
    (folder / "samples").mkdir(exist_ok=True)
    for _, path in pictures.step_files(training / "samples"):
        shutil.copy(path, folder / "samples")


def _training_folder(root: Path, summary: Mapping[str, Any]) -> Path | None:
    """The training's stable folder; of a training that did not end, the one written to last."""
    if summary["training"]:
        return Path(summary["training"]["work_dir"])
    trainer = summary["components"].get("Trainer")
    if trainer is None:
        return None
    started = datetime.datetime.fromisoformat(trainer["started"]).timestamp()
    written = {
        path: path.stat().st_mtime for path in (root / "training").glob(f"*/{_METRICS_FILE}")
    }
    newest = max(written, key=written.__getitem__, default=None)
    return newest.parent if newest and written[newest] >= started else None


def _data(summary: Mapping[str, Any]) -> dict[str, Any]:
    return dataset.gather(
        _output(summary, "StatisticsGen", "statistics"),
        _output(summary, "ExampleValidator", "anomalies"),
    )


def _output(summary: Mapping[str, Any], component: str, key: str) -> Path | None:
    """Folder of a component's output artifact, where it got that far."""
    uris = summary["artifacts"].get(component, {}).get(key)
    return Path(uris[0]) if uris else None


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")
