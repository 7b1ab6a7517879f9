"""What every metric says of images that are made worse on purpose, step by step.

`make responses` runs it on scikit-learn's digits; docs/metrics.md has the tables for MNIST. Two
disjoint sets of real images are compared; one of them is degraded. Nothing is trained, so
whatever a metric says beyond its floor is an answer to the degradation alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from scipy import ndimage

from tools import digits
from trainer.options import ExtractorOptions
from trainer.quality import catalogue, extractors
from trainer.quality.image_set import ImageSet
from trainer.quality.jackknife import replicates, standard_error
from trainer.quality.measures import MEASURES
from trainer.quality.memorisation import nearest_distances
from trainer.quality.sliced import project

#: (images to be degraded, their labels, training images, strength) -> worse images.
Degradation = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]
NAMES = tuple(metric.name for metric in catalogue.METRICS)


def noise(
    images: np.ndarray, labels: np.ndarray, training: np.ndarray, deviation: float
) -> np.ndarray:
    """Normal noise on every pixel, of a deviation as a share of white."""
    drawn = np.random.default_rng(0).normal(0.0, 255.0 * deviation, images.shape)
    return np.clip(np.rint(images + drawn), 0, 255).astype(np.uint8)


def blur(images: np.ndarray, labels: np.ndarray, training: np.ndarray, radius: float) -> np.ndarray:
    """Gaussian blur, of a deviation in pixels."""
    blurred = ndimage.gaussian_filter(images.astype(np.float32), (0, radius, radius, 0))
    return np.rint(blurred).astype(np.uint8)


def drop_classes(
    images: np.ndarray, labels: np.ndarray, training: np.ndarray, share: float
) -> np.ndarray:
    """Images of so large a share of the classes replaced by others of those that are left."""
    classes = np.unique(labels)
    kept = classes[: max(1, round((1.0 - share) * len(classes)))]
    return np.resize(images[np.isin(labels, kept)], images.shape)


def duplicate(
    images: np.ndarray, labels: np.ndarray, training: np.ndarray, share: float
) -> np.ndarray:
    """Mode collapse: so large a share of the images replaced by copies of those that are left."""
    return np.resize(images[: max(1, round((1.0 - share) * len(images)))], images.shape)


def memorise(
    images: np.ndarray, labels: np.ndarray, training: np.ndarray, share: float
) -> np.ndarray:
    """So large a share of the images replaced by training images."""
    copies = round(share * len(images))
    return np.concatenate([np.resize(training, images.shape)[:copies], images[copies:]])


DEGRADATIONS: Mapping[str, tuple[Degradation, tuple[float, ...]]] = {
    "noise": (noise, (0.05, 0.1, 0.2, 0.4, 0.8)),
    "blur": (blur, (0.4, 0.6, 0.8, 1.2, 2.0)),
    "dropped classes": (drop_classes, (0.1, 0.3, 0.5, 0.7, 0.9)),
    "duplicated samples": (duplicate, (0.5, 0.8, 0.9, 0.98, 0.998)),
    "memorised images": (memorise, (0.1, 0.2, 0.4, 0.7, 1.0)),
}

_DISTANCES = {
    "frechet_distance",
    "relative_frechet_distance",
    "kernel_distance",
    "sliced_wasserstein_distance",
}
#: The metrics that get worse with every step of a degradation: what each is there to see.
RESPONDS: Mapping[str, set[str]] = {
    "noise": {*_DISTANCES, "precision", "recall", "density", "coverage"},
    "blur": {*_DISTANCES, "precision", "recall", "density", "coverage"},
    "dropped classes": {*_DISTANCES, "recall", "coverage", "diversity"},
    "duplicated samples": {"frechet_distance", "recall", "coverage", "diversity"},
    "memorised images": {"memorisation"},
}


@dataclasses.dataclass(frozen=True)
class Data:
    """Disjoint sets of real images uint8 [N, H, W, C].

    Attributes:
      real: held out, to compare with.
      other: as many more, to be degraded.
      labels: int64 [N], of `other`.
      training: that copies are looked for in.
    """

    real: np.ndarray
    other: np.ndarray
    labels: np.ndarray
    training: np.ndarray


def load(folder: Path | None, count: int, training: int) -> Data:
    """The images, in an order that says nothing.

    Args:
      folder: with `train.npz` and `eval.npz`, arrays `images` and `labels`; None: digits.
      count: images to compare, of each set, at most.
      training: training images, at most.
    """
    if folder is None:
        images, labels = _shuffled(*digits.load())
        real, images, labels = images[:count], images[count:], labels[count:]
    else:
        (real, _), (images, labels) = (
            _shuffled(arrays["images"], arrays["labels"])
            for arrays in map(np.load, (folder / "eval.npz", folder / "train.npz"))
        )
        real = real[:count]
    count = len(real)
    return Data(real, images[:count], labels[:count], images[count : count + training])


def _shuffled(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(0).permutation(len(images))
    return images[order], labels[order]


class Bench:
    """Compares sets of images with the real ones, by all metrics."""

    def __init__(self, data: Data, extractor: extractors.Extractor):
        self._extract = extractor
        self._training = extractor(data.training)
        self._real = self._image_set(data.real)

    def measure(self, images: np.ndarray) -> dict[str, float]:
        """All metrics by name."""
        generated = self._image_set(images)
        return {
            name: value
            for measure in MEASURES.values()
            for name, value in measure(self._real, generated).items()
        }

    def errors(self, images: np.ndarray) -> dict[str, float]:
        """Their standard errors."""
        generated = self._image_set(images)
        return {
            name: standard_error(values)
            for measure in MEASURES.values()
            for name, values in replicates(measure, self._real, generated).items()
        }

    def _image_set(self, images: np.ndarray) -> ImageSet:
        features = self._extract(images)
        return ImageSet(features, project(images), nearest_distances(features, self._training)[0])


@dataclasses.dataclass(frozen=True)
class Responses:
    """Metrics by degradation and strength, strength 0 being the floor.

    Attributes:
      values: by degradation, one set of metrics for each strength, from 0 on.
      errors: standard errors at strength 0.
    """

    values: Mapping[str, list[dict[str, float]]]
    errors: Mapping[str, float]

    def monotone(self, degradation: str, name: str) -> bool:
        """Whether a metric never gets better by more than two errors, and worse in the end."""
        metric = catalogue.BY_NAME[name]
        series = np.array([found[name] for found in self.values[degradation]])
        slack = 2.0 * self.errors[name]
        steps = np.array([metric.worsening(step) for step in np.diff(series)])
        return bool((steps > -slack).all() and metric.worsening(series[-1] - series[0]) > slack)


def respond(data: Data, bench: Bench) -> Responses:
    """Measures everything at every strength."""
    floor = bench.measure(data.other)
    values = {
        name: [
            floor,
            *(
                bench.measure(degrade(data.other, data.labels, data.training, strength))
                for strength in strengths
            ),
        ]
        for name, (degrade, strengths) in DEGRADATIONS.items()
    }
    return Responses(values, bench.errors(data.other))


def table(responses: Responses) -> Iterator[str]:
    """Lines of Markdown: values, a star at those of a metric that answers in order."""
    yield "| images | " + " | ".join(name.replace("_", " ") for name in NAMES) + " |"
    yield "| --- |" + " --- |" * len(NAMES)
    floor = next(iter(responses.values.values()))[0]
    cells = (f"{_number(floor[name])} ± {_number(responses.errors[name])}" for name in NAMES)
    yield f"| real (the floor) | {' | '.join(cells)} |"
    for degradation, (_, strengths) in DEGRADATIONS.items():
        stars = {name: "*" * responses.monotone(degradation, name) for name in NAMES}
        for strength, found in zip(strengths, responses.values[degradation][1:], strict=True):
            cells = (_number(found[name]) + stars[name] for name in NAMES)
            yield f"| {degradation} {strength:g} | {' | '.join(cells)} |"


def ranking(bench: Bench, sets: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Lines of Markdown: sets of images, as they are and on grey, the best first."""
    grey = {
        f"{name}, on grey": (0.5 * images + 100).astype(np.uint8) for name, images in sets.items()
    }
    some = next(iter(sets.values()))
    uniform = np.random.default_rng(0).integers(0, 256, some.shape, np.uint8)
    found = {
        name: bench.measure(images)
        for name, images in {**sets, **grey, "uniform noise": uniform}.items()
    }
    yield "| images | " + " | ".join(name.replace("_", " ") for name in NAMES) + " |"
    yield "| --- |" + " --- |" * len(NAMES)
    for name in sorted(found, key=lambda name: found[name]["relative_frechet_distance"]):
        yield f"| {name} | {' | '.join(_number(found[name][metric]) for metric in NAMES)} |"


def plot(responses: Responses, path: Path) -> None:
    """One panel a metric, one line a degradation."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, metric in zip(figure.subplots(2, 5).flat, catalogue.METRICS, strict=True):
        for degradation, values in responses.values.items():
            axes.plot([found[metric.name] for found in values], marker=".", label=degradation)
        axes.set_title(f"{metric.title} ({metric.better} is better)", fontsize=9)
        axes.set_xlabel("strength, 0: real images", fontsize=8)
        if metric.name in _DISTANCES:
            axes.set_yscale("symlog", linthresh=max(3.0 * responses.errors[metric.name], 1e-6))
    figure.axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=80)


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 0.995 else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with train.npz and eval.npz")
    parser.add_argument("--extractor", default="random", help="as evaluation.extractor.name")
    parser.add_argument("--count", type=int, default=2000, help="images of each set")
    parser.add_argument("--training", type=int, default=10_000, help="training images")
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    parser.add_argument(
        "--rank",
        nargs="*",
        type=Path,
        metavar="NPY",
        help="rank these images, uint8 [N, H, W, C], among real ones and noise instead",
    )
    arguments = parser.parse_args()
    count = arguments.count if arguments.data else min(arguments.count, 600)
    data = load(arguments.data, count, arguments.training)
    bench = Bench(data, extractors.create(ExtractorOptions(name=arguments.extractor)))
    if arguments.rank is not None:
        sets = {path.stem: np.load(path)[: len(data.real)] for path in arguments.rank}
        print("\n".join(ranking(bench, {"real": data.other, **sets})))
        return
    responses = respond(data, bench)
    print("\n".join(table(responses)))
    if arguments.plot:
        plot(responses, arguments.plot)


if __name__ == "__main__":
    main()
