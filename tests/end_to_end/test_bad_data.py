"""Real folders of images with something wrong in them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """200 real digits as PNG files in class folders."""
    folder = tmp_path_factory.mktemp("digits")
    data = datasets.load_digits()
    for index, (image, label) in enumerate(zip(data.images[:200], data.target, strict=False)):
        target = folder / str(label)
        target.mkdir(exist_ok=True)
        pixels = np.round(image * 255 / 16).astype(np.uint8)
        Image.fromarray(pixels).save(target / f"{index:03}.png")
    return folder


def _copy_with_broken(digits, folder, count):
    shutil.copytree(digits, folder)
    broken = sorted(folder.rglob("*.png"))[:: 200 // count][:count]
    for path in broken:
        path.write_bytes(path.read_bytes()[:40])
    return {path.relative_to(folder).as_posix() for path in broken}


def test_few_broken_files_are_left_out_and_named(digits, tmp_path, run_pipeline):
    broken = _copy_with_broken(digits, tmp_path / "images", 2)
    outcome = run_pipeline(
        "digits", tmp_path / "root", f"data.input={tmp_path / 'images'}", "training.steps=2"
    )
    assert outcome.code == 0, outcome.screen
    summary = outcome.summary
    assert summary["quarantined"] == 2
    assert sum(summary["examples"].values()) == 198
    listed = Path(summary["report"]).with_name("quarantine.jsonl").read_text().splitlines()
    assert {json.loads(line)["path"] for line in listed} == broken
    assert "2 files could not be read" in outcome.screen


def test_many_broken_files_stop_the_run_and_the_findings_stay(digits, tmp_path, run_pipeline):
    _copy_with_broken(digits, tmp_path / "images", 100)
    root = tmp_path / "root"
    outcome = run_pipeline("digits", root, f"data.input={tmp_path / 'images'}", "training.steps=2")
    assert outcome.code == 1
    summary = outcome.summary
    assert summary["error"].startswith("DataGate: the data was refused: 100 of 200 files (50.0%)")
    assert "Transform" not in summary["components"]
    assert summary["quarantined"] == 100
    assert Path(summary["report"]).exists()
    for node, key in (
        ("StatisticsGen", "statistics"),
        ("ExampleValidator", "anomalies"),
        ("ImageExampleGen", "quarantine"),
    ):
        assert list(Path(summary["artifacts"][node][key][0]).rglob("*.*")), node
    assert not (root / "schema" / "schema.pbtxt").exists()


def test_other_data_than_the_pinned_schema_says_is_refused(digits, tmp_path, run_pipeline):
    images, root = tmp_path / "images", tmp_path / "root"
    shutil.copytree(digits, images)
    arguments = (f"data.input={images}", "training.steps=2")
    assert run_pipeline("digits", root, *arguments).code == 0
    pinned = (root / "schema" / "schema.pbtxt").read_bytes()

    png = next(images.rglob("*.png"))
    Image.open(png).resize((9, 8)).save(png.with_suffix(".bmp"))
    refused = run_pipeline("digits", root, *arguments)
    assert refused.code == 1
    assert "format" in refused.summary["error"]
    assert "width" in refused.summary["error"]
    assert (root / "schema" / "schema.pbtxt").read_bytes() == pinned

    # The schema is meant to be edited: a person who accepts such files says so there.
    text = pinned.decode()
    text = text.replace('value: "png"', 'value: "png"\n  value: "bmp"').replace("max: 8", "max: 9")
    (root / "schema" / "schema.pbtxt").write_text(text)
    accepted = run_pipeline("digits", root, *arguments)
    assert accepted.summary["components"]["DataGate"]["state"] == "done", accepted.screen


def test_images_without_the_labels_a_model_needs_are_refused_before_training(
    digits, tmp_path, run_pipeline
):
    (tmp_path / "flat").mkdir()
    for path in digits.rglob("*.png"):
        shutil.copy(path, tmp_path / "flat")
    arguments = (f"data.input={tmp_path / 'flat'}", "model.conditional=true")
    refused = run_pipeline("digits", tmp_path / "root", *arguments)
    assert refused.code == 1
    assert "model.conditional is true, but the images have no labels" in refused.summary["error"]
    assert "Transform" not in refused.summary["components"]


@pytest.mark.parametrize("kind", ["empty", "missing", "text"])
def test_input_without_images_exits_2_with_one_line(tmp_path, run_pipeline, kind):
    folder = tmp_path / "images"
    if kind != "missing":
        folder.mkdir()
    if kind == "text":
        (folder / "notes.txt").write_text("nothing to see")
    outcome = run_pipeline("digits", tmp_path / "root", f"data.input={folder}")
    assert outcome.code == 2
    assert len(outcome.screen.splitlines()) == 1
    assert str(folder) in outcome.screen
    assert not (tmp_path / "root").exists()
