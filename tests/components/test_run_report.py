"""The page of a run: whole, self-contained, accessible, and never in the way of a failed run."""

import copy
import html.parser
import itertools
import json

import numpy as np
import pytest

from components.run_report import dataset, making, pictures, render, scores
from trainer import grid

METRICS = {
    "relative_frechet_distance": 0.125,
    "precision": 0.5,
    "memorisation": 0.0625,
    "errors": {"relative_frechet_distance": 0.012},
    "floors": {"relative_frechet_distance": 0.03},
    "change_errors": {"relative_frechet_distance": 0.01},
    "examples": 360,
    "sampled": 360,
    "training": 350,
    "extractor": "random",
    "extractor_sha256": "0123456789abcdef" * 4,
    "split": "eval",
    "per_class": {"<b>": {"relative_frechet_distance": 2.5, "examples": 36, "errors": {}}},
}
SUMMARY = {
    "run_id": "20260102-030405",
    "status": "served",
    "error": None,
    "verdict": "Blessed: relative Frechet distance 0.12, bound 1",
    "pushed_model": "/elsewhere/serving/7",
    "report": "report.html",
    "log": "/root/runs/x/log.txt",
    "model": "/root/model",
    "metrics": METRICS,
    "baseline_metrics": {"relative_frechet_distance": 0.225, "per_class": {}},
    "examples": {"train": 1440, "eval": 360},
    "quarantined": 1,
    "training": {"strategy": "one device, CPU:0", "steps": 3, "exported_step": 2, "rollbacks": 1},
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
#: What a run that stopped early leaves in its summary.
NOTHING = {
    "verdict": None,
    "pushed_model": None,
    "model": None,
    "metrics": {},
    "baseline_metrics": None,
    "examples": {},
    "training": None,
    "components": {},
}
HISTORY = [
    {
        "run_id": run_id,
        "started": "2026-01-01T00:00:00",
        "status": status,
        "pushed_version": version,
        "metrics": {"relative_frechet_distance": distance},
        "errors": {"relative_frechet_distance": 0.01},
        "extractor": "random",
        "extractor_sha256": "0" * 64,
    }
    for run_id, status, version, distance in (
        ("20260101-000000", "served", "6", 0.2),
        ("20260102-030405", "refused", None, 0.3),
    )
]


class _Page(html.parser.HTMLParser):
    """Collects what a page is made of, and checks that its tags close."""

    VOID = ("meta", "img", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.links, self.words = [], [], [], []
        self.tags, self.ids, self.cells, self.tables = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in self.VOID:
            self.open.append(tag)
        self.tags.append(tag)
        if tag == "html":
            assert attributes["lang"] == "en"
        if tag == "img":
            self.images.append(attributes)
        if tag == "th":
            self.cells.append(attributes.get("scope"))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [attributes[name] for name in ("src", "href") if name in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def _render(folder, history=(), **changes):
    summary = copy.deepcopy(SUMMARY) | changes
    return _Page(render.render(folder, summary, history).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The page of a run that went through, and of which everything is there."""
    return _render(_fill(tmp_path_factory.mktemp("whole")), HISTORY)


@pytest.fixture
def folder(tmp_path):
    return _fill(tmp_path)


def _fill(tmp_path):
    """Puts everything that may be there into the folder of a run."""
    lines = [
        {"step": step, "wasserstein": 5.0 / step, "critic_loss": -1.0, "gradient_norm": 1.0}
        | {"gradient_penalty": 0.1, "generator_loss": 0.0, "images_per_second": 3000.0}
        | {"validation_wasserstein": 6.0 / step, "validation_distance": 1.0 / step}
        | {"sample_deviation": 0.9}
        for step in (1, 2, 3)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "config.yaml").write_text("data:\n  input: digits\n")
    (tmp_path / "quarantine.jsonl").write_text('{"path": "a.png", "reason": "truncated"}\n')
    images = np.zeros([4, 8, 8, 1], np.uint8)
    (tmp_path / "samples").mkdir()
    for name in ("samples", "interpolation", "samples/step-00000000", "samples/step-00000003"):
        grid.write(images, columns=2, path=str(tmp_path / f"{name}.png"))
    rows = {"samples": ["<b>", "c"], "interpolation": ["<b>", "c"]}
    (tmp_path / pictures.ROWS_FILE).write_text(json.dumps(rows))
    np.savez(
        tmp_path / pictures.PICTURES_FILE,
        real=np.repeat(images, 2, axis=0),
        real_label=np.arange(8),
        generated=np.repeat(images, 2, axis=0),
        generated_label=np.arange(8),
        closest=images[:2],
        closest_training=images[:2],
        closest_distance=np.array([0.25, 0.75], np.float32),
        heldout_nearest_quantile=np.float32(0.4375),
    )
    splits = {
        name: {"examples": count, "labels": {"<b>": count}, "sizes": {}}
        for name, count in (("train", 1440), ("eval", 360))
    }
    (tmp_path / dataset.DATA_FILE).write_text(
        json.dumps({"splits": splits, "anomalies": ["train: label: a new value"]})
    )
    execution = {"id": 3, "component": "Trainer", "state": "complete", "inputs": [1]}
    artifact = {"id": 1, "type": "Examples", "uri": "/elsewhere/examples", "fingerprint": "f" * 64}
    (tmp_path / making.LINEAGE_FILE).write_text(
        json.dumps(
            {
                "executions": [execution | {"outputs": [2]}],
                "artifacts": [
                    artifact | {"made_by": None},
                    artifact | {"id": 2, "fingerprint": None, "made_by": 3},
                ],
            }
        )
    )
    return tmp_path


def _check_structure(page):
    """What holds for every page, of whatever run."""
    assert page.open == []
    assert all(link.startswith(("data:image/", "#")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert all(image["alt"].strip() for image in page.images)
    assert len(page.ids) == len(set(page.ids))
    assert "script" not in page.tags
    levels = [int(tag[1]) for tag in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert set(page.cells) <= {"row", "col"}
    assert page.tags.count("table") == page.tags.count("caption")


def test_render_is_one_accessible_file_that_needs_nothing_else(whole):
    _check_structure(whole)
    # Generated, real, by class, interpolation, 2 pairs, 2 steps, 6 curves, history.
    assert len(whole.images) == 15
    assert len({image["alt"] for image in whole.images}) == 15
    assert "http" not in whole.text


@pytest.mark.parametrize(
    "expected",
    [
        "Served",
        "bound 1",
        "serves version 7",
        "0.125 ± 0.012",
        "−0.100 ± 0.010 better",
        "0.03",
        "sha256 0123456789ab .",
        "360 real images of the split eval",
        "Memorisation 0.0625",
        "5% are nearer than 0.4375",
        "step 3",
        "Exported: step 2 of 3. Taken back to an earlier checkpoint 1 time.",
        "1,440",
        "train: label: a new value",
        "1: truncated",
        "a.png",
        "12.3",
        "ffffffffffff",
        "1 executions, 2 artifacts",
        "input: digits",
        "20260101-000000 served 0.200 ± 0.010 – – 6",
        "20260102-030405 (this one) refused 0.300 ± 0.010 – – –",
    ],
)
def test_render_says_what_the_run_did(whole, expected):
    assert expected in whole.text


def test_render_escapes_names_from_the_data(folder):
    _render(folder)
    text = (folder / "report.html").read_text()
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_render_of_a_run_that_stopped_early_says_why(tmp_path, status):
    page = _render(tmp_path, status=status, error="DataGate: the data was refused", **NOTHING)
    _check_structure(page)
    assert page.images == []
    assert "DataGate: the data was refused" in page.words


def test_render_of_a_summary_with_nothing_but_its_name_is_whole(tmp_path):
    render.render(tmp_path, {"run_id": "1", "status": "failed"})
    _check_structure(_Page((tmp_path / "report.html").read_text()))


def test_render_files_that_are_broken_are_left_out(folder):
    names = ["metrics.jsonl", pictures.PICTURES_FILE, dataset.DATA_FILE, pictures.ROWS_FILE]
    for name in [*names, making.LINEAGE_FILE, "quarantine.jsonl"]:
        (folder / name).write_bytes(b'{"step": 3, "wass')
    page = _render(folder)
    _check_structure(page)
    assert len(page.images) == 4  # samples, interpolation, two steps


@pytest.mark.parametrize("missing", ["samples.png", pictures.ROWS_FILE, making.LINEAGE_FILE])
def test_render_file_that_is_missing_is_left_out(folder, missing):
    (folder / missing).unlink()
    (folder / "metrics.jsonl").unlink()
    _check_structure(_render(folder))


def test_render_of_a_refused_run_lists_why_and_says_that_the_served_model_stays(folder):
    failure = {
        "metric": "precision",
        "class": "<b>",
        "value": 0.5,
        "error": 0.1,
        "limit": 0.7,
        "kind": "bound",
        "message": "precision below the bound",
    }
    (folder / scores.VERDICT_FILE).write_text(json.dumps({"failures": [failure]}))
    page = _render(folder, status="refused", verdict="worse", pushed_model=None)
    _check_structure(page)
    assert "what was served before still is" in page.text
    assert "Precision <b> 0.5 0.7 precision below the bound" in page.text


def test_render_of_the_first_model_leaves_out_what_compares_with_a_served_one(folder):
    (folder / "metrics.jsonl").unlink()
    page = _render(folder, baseline_metrics=None)
    _check_structure(page)
    assert "Nothing was served to compare with." in page.text
    assert "Change" not in page.text
    assert "<b> 36 2.5 –" not in page.text


def test_render_paths_below_the_root_are_told_from_there(tmp_path):
    folder = tmp_path / "runs" / "20260102-030405"
    folder.mkdir(parents=True)
    text = _render(folder, model=str(tmp_path / "pipeline" / "Trainer")).text
    assert "pipeline/Trainer" in text
    assert str(tmp_path) not in text
    assert "/elsewhere/serving/7" in text
