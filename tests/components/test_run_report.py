"""The page of a run: whole, self-contained, and never in the way of a failed run."""

import copy
import html.parser
import json

import numpy as np
import pytest

from components.run_report import curves, render
from trainer import grid

SUMMARY = {
    "run_id": "20260102-030405",
    "status": "served",
    "error": None,
    "verdict": "Blessed: relative Frechet distance 0.12, bound 1",
    "pushed_model": "/elsewhere/serving/7",
    "report": "report.html",
    "log": "/root/runs/x/log.txt",
    "model": "/root/model",
    "metrics": {
        "frechet_distance": 1.25,
        "relative_frechet_distance": 0.125,
        "examples": 360,
        "extractor": "random",
        "per_class": {"<b>": {"frechet_distance": 2.5, "examples": 36}},
    },
    "baseline_metrics": {"frechet_distance": 1.5, "per_class": {}},
    "examples": {"train": 1440, "eval": 360},
    "quarantined": 1,
    "training": {"strategy": "one device, CPU:0"},
    "components": {
        "Trainer": {
            "seconds": 12.34,
            "cached": False,
            "state": "done",
            "started": "2026-01-02T03:04:05",
        }
    },
    "versions": {"tfx": "1.16.0", "tensorflow": None},
}


class _Page(html.parser.HTMLParser):
    """Collects what a page refers to, and checks that its tags close."""

    VOID = ("meta", "img", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.links, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "img":
            self.images.append(attributes)
        self.links += [attributes[name] for name in ("src", "href") if name in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def _render(folder, **changes):
    summary = copy.deepcopy(SUMMARY) | changes
    return _Page(render.render(folder, summary).read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path):
    lines = [
        {"step": step, "wasserstein": 5.0 / step, "critic_loss": -1.0, "gradient_norm": 1.0}
        | {"gradient_penalty": 0.1, "generator_loss": 0.0, "images_per_second": 3000.0}
        for step in (1, 2, 3)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "config.yaml").write_text("data:\n  input: digits\n")
    (tmp_path / "quarantine.jsonl").write_text('{"path": "a.png", "reason": "truncated"}\n')
    images = np.zeros([4, 8, 8, 1], np.uint8)
    grid.write(images, columns=2, path=str(tmp_path / "samples.png"))
    return tmp_path


def test_render_is_one_file_that_needs_nothing_else(folder):
    page = _render(folder)
    assert page.open == []
    assert len(page.images) == 2
    assert all(link.startswith("data:image/") for link in page.links)
    assert all(image["alt"].strip() for image in page.images)
    assert "<script" not in (folder / "report.html").read_text()


def test_render_says_verdict_numbers_and_quarantine(folder):
    words = " ".join(_render(folder).words)
    for expected in (
        "Served",
        "bound 1",
        "1.25",
        "1.5",
        "36",
        "1,440 images",
        "a.png",
        "12.3",
        "input: digits",
    ):
        assert expected in words


def test_render_escapes_names_from_the_data(folder):
    _render(folder)
    text = (folder / "report.html").read_text()
    assert "&lt;b&gt;" in text
    assert "<td><b></td>" not in text


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_render_of_a_run_that_stopped_early_says_why(tmp_path, status):
    page = _render(
        tmp_path,
        status=status,
        error="DataGate: the data was refused",
        verdict=None,
        pushed_model=None,
        model=None,
        metrics={},
        baseline_metrics=None,
        examples={},
        training=None,
    )
    assert page.open == []
    assert page.images == []
    assert "DataGate: the data was refused" in page.words


def test_render_of_a_refused_run_says_that_the_served_model_stays(folder):
    words = _render(folder, status="refused", verdict="worse", pushed_model=None).words
    assert any("what was served before still is" in word for word in words)


def test_draw_needs_two_points():
    assert curves.draw([]) is None
    assert curves.draw([{"step": 1, "wasserstein": 1.0}]) is None


def test_draw_leaves_out_what_is_not_finite():
    metrics = [
        {"step": step, "wasserstein": value} for step, value in ((1, 1.0), (2, float("nan")))
    ]
    assert curves.draw(metrics).startswith(b"<?xml")


def test_render_paths_below_the_root_are_told_from_there(tmp_path):
    folder = tmp_path / "runs" / "20260102-030405"
    folder.mkdir(parents=True)
    words = " ".join(_render(folder, model=str(tmp_path / "pipeline" / "Trainer")).words)
    assert "pipeline/Trainer" in words
    assert str(tmp_path) not in words
    assert "/elsewhere/serving/7" in words
