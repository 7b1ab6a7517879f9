"""Every metric answers to what it is there to see, on scikit-learn's digits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from trainer.options import ExtractorOptions
from trainer.quality import catalogue, extractors

with pytest.MonkeyPatch.context() as patch:  # run from a checkout, but not installed
    patch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    from tools import metric_responses


@pytest.fixture(scope="module")
def data():
    return metric_responses.load(None, 300, 1000)


@pytest.fixture(scope="module")
def bench(data):
    return metric_responses.Bench(data, extractors.create(ExtractorOptions()))


@pytest.fixture(scope="module")
def responses(data, bench):
    return metric_responses.respond(data, bench)


def test_data_are_disjoint(data):
    assert len(data.real) == len(data.other) == len(data.labels) == 300
    assert len(data.training) == 1000
    parts = [{image.tobytes() for image in part} for part in (data.real, data.other, data.training)]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]


@pytest.mark.parametrize(
    ("degradation", "name"),
    [(key, name) for key, names in metric_responses.RESPONDS.items() for name in sorted(names)],
)
def test_metric_gets_worse_with_every_step_of_what_it_is_there_to_see(responses, degradation, name):
    assert responses.monotone(degradation, name)


def test_every_metric_is_there_to_see_something():
    assert set().union(*metric_responses.RESPONDS.values()) == set(catalogue.BY_NAME)


@pytest.mark.parametrize("name", sorted(set(catalogue.BY_NAME) - {"memorisation"}))
def test_training_images_are_good_images_to_every_metric_but_one(responses, name):
    floor, *_, all_copies = [found[name] for found in responses.values["memorised images"]]
    worsening = catalogue.BY_NAME[name].worsening(all_copies - floor)
    assert worsening < 3.0 * responses.errors[name]


def test_copies_score_what_their_share_is(responses):
    found = [values["memorisation"] for values in responses.values["memorised images"]]
    shares = np.array([0.0, 0.1, 0.2, 0.4, 0.7, 1.0])
    # And five percent of those that are no copies.
    assert found == pytest.approx(shares + 0.05 * (1.0 - shares), abs=0.03)


def test_table_and_plot_show_everything(responses, tmp_path):
    lines = list(metric_responses.table(responses))
    assert len(lines) == 3 + 5 * 5
    assert all(line.count("|") == 2 + len(catalogue.METRICS) for line in lines)
    assert re.match(r"\| memorised images 1 \|.* 1\.00\* \|", lines[-1])
    metric_responses.plot(responses, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_ranking_puts_pictures_on_grey_between_real_images_and_noise(data, bench):
    sets = {"real": data.other, "few": np.resize(data.other[:8], data.other.shape)}
    names = [line.split(" | ")[0][2:] for line in metric_responses.ranking(bench, sets)][2:]
    assert names[0] == "real"
    assert names[-1] == "uniform noise"
    assert names.index("few") < names.index("few, on grey")
