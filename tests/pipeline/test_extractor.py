"""Extractors in the pipeline: pinned to their files, refused early, fitted by a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from PIL import Image

from pipeline import cli, config, dag, gate, history, pinning
from pipeline.extractor import FitError, Fitted, check_output
from trainer import folder as training_folder
from trainer.options import ExtractorOptions, TrainingJob
from trainer.quality.extractors import ExtractorError, files

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def model(tmp_path):
    """Files that look like a SavedModel from outside."""
    path = tmp_path / "extractor"
    path.mkdir()
    (path / "saved_model.pb").write_bytes(b"graph")
    return path


def _call(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def _config(tmp_path, **extractor):
    overrides = [f"evaluation.extractor.{key}={value}" for key, value in extractor.items()]
    return config.load("digits", overrides, str(tmp_path / "root"))


def _trainings_extractor(configured):
    (trainer,) = [c for c in dag.create_pipeline(configured).components if c.id == "Trainer"]
    custom = json.loads(trainer.exec_properties["custom_config"])
    return ExtractorOptions(**json.loads(custom["job"])["extractor"])


def test_pinned_hash_reaches_training_and_gate_and_follows_the_files(tmp_path, model):
    configured = _config(tmp_path, name=model)
    for content in (b"graph", b"another graph"):
        (model / "saved_model.pb").write_bytes(content)
        expected = ExtractorOptions(name=str(model), sha256=files.sha256(str(model)))
        assert _trainings_extractor(configured) == expected
        assert gate.gate_options(configured).extractor == expected


def test_pinned_relative_path_is_in_full_wherever_it_is_used(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pinning.pinned(ExtractorOptions(name="extractor")).name == str(model)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pinning.pinned(ExtractorOptions(name="~/extractor")).name == str(model)
    inception = pinning.pinned(ExtractorOptions(name="inception", weights="extractor"))
    assert inception.weights == str(model)
    assert inception.sha256 == files.sha256(str(model))


def test_pinned_elsewhere_keeps_the_pin_and_without_one_is_refused():
    remote = ExtractorOptions(name="gs://bucket/extractor", sha256="1" * 64)
    assert pinning.pinned(remote) == remote
    weights = ExtractorOptions(name="inception", weights="https://host/w.h5", sha256="1" * 64)
    assert pinning.pinned(weights) == weights
    for options in (remote, weights):
        with pytest.raises(ExtractorError, match="is not on this machine and could change unseen"):
            pinning.pinned(options.model_copy(update={"sha256": None}))


def test_pinned_keras_own_weights_need_no_pin():
    assert pinning.pinned(ExtractorOptions(name="inception")) == ExtractorOptions(name="inception")


def test_training_folder_is_another_with_another_hash():
    job = TrainingJob(
        image_size=16, channels=1, train_files=(), work_dir="w", export_dir="e", log_dir="l"
    )

    def key(sha256):
        extractor = ExtractorOptions(name="/extractor", sha256=sha256)
        return training_folder.key(job.model_copy(update={"extractor": extractor}), train="data")

    assert key("1" * 64) == key("1" * 64) != key("2" * 64)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"name": "/none"}, "evaluation.extractor.name: got '/none', which is no folder; allowed"),
        ({"name": "incepton"}, "evaluation.extractor.name: got '{cwd}/incepton', which is no fol"),
        ({"name": "{model}", "sha256": "0" * 64}, "evaluation.extractor.sha256: {model} has "),
        ({"sha256": "0" * 64}, "evaluation.extractor.sha256: random has "),
        ({"sha256": "xyz"}, "evaluation.extractor.sha256: got 'xyz'; allowed: a text"),
        ({"name": "gs://b/e"}, "evaluation.extractor.sha256: got null, but gs://b/e is not on"),
        ({"name": "inception", "weights": "/none"}, "evaluation.extractor.weights: got '/none', "),
        ({"weights": "/none"}, "evaluation.extractor.weights: got '/none' with evaluation.extr"),
    ],
)
def test_run_extractor_that_is_not_there_exits_2_and_writes_nothing(
    tmp_path, model, settings, line
):
    known = {"model": model, "cwd": os.getcwd()}
    given = [f"--set=evaluation.extractor.{k}='{v.format(**known)}'" for k, v in settings.items()]
    result = _call("run", "digits", "--root", tmp_path / "root", *given)
    assert result.exit_code == 2
    assert result.output.startswith(f"tfx-wgan: {line.format(**known)}")
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("command", [["extractor"], ["extractor", "fit"], ["extractor", "show"]])
def test_help_of_every_command_teaches(command):
    result = _call(*command, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 4


def test_show_prints_name_hash_and_dimension(tmp_path):
    result = _call("extractor", "show", "digits")
    from trainer.quality.extractors.random import RandomExtractor

    assert [line.split() for line in result.stdout.splitlines()] == [
        ["name", "random"],
        ["sha256", RandomExtractor.sha256],
        ["dimension", str(RandomExtractor.dimension)],
    ]


def test_show_extractor_that_is_not_there_exits_2():
    result = _call("extractor", "show", "digits", "--set", "evaluation.extractor.name=/none")
    assert result.exit_code == 2
    assert "got '/none'" in result.output


def test_fitted_lines_are_configuration_that_names_it(tmp_path):
    fitted = Fitted(str(tmp_path / "a: {b}, c"), "1" * 64, {})
    path = tmp_path / "config.yaml"
    path.write_text(fitted.lines + "\n")
    assert len(fitted.lines.splitlines()) == 2
    found = config.load(str(path)).evaluation.extractor
    assert found == ExtractorOptions(name=fitted.path, sha256=fitted.sha256)


def test_check_output_refuses_what_is_no_extractor(tmp_path, model):
    check_output(model)
    check_output(tmp_path / "new")
    with pytest.raises(FitError, match="exists, and is no extractor; give a new folder"):
        check_output(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FitError, match="file is no folder that can be written to"):
        check_output(tmp_path / "file" / "below" / "new")


def _fit(tmp_path, *arguments):
    command = [sys.executable, "-m", "pipeline.cli", "extractor", "fit", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)


@pytest.mark.end_to_end
def test_fit_digits_is_accurate_repeatable_and_measures_a_run(tmp_path):
    first = _fit(tmp_path, "digits", "--root", "root")
    assert first.returncode == 0, first.stderr
    chosen = ExtractorOptions(**yaml.safe_load(first.stdout)["evaluation"]["extractor"])
    assert chosen.name == str(tmp_path / "root" / "extractors" / chosen.sha256[:12])
    assert files.sha256(chosen.name) == chosen.sha256

    again = _fit(tmp_path, "digits", "--root", "root", "--json")
    told = json.loads(again.stdout)
    assert (told["path"], told["sha256"]) == (chosen.name, chosen.sha256)
    assert told["accuracy"] > 0.95
    assert again.stderr.count("cached") >= 4  # the nodes before it
    assert "Trainer" not in again.stderr
    assert [p.name for p in Path(chosen.name).parent.iterdir()] == [chosen.sha256[:12]]
    assert history.runs(tmp_path / "root") == []

    shown = _call(
        "extractor", "show", "digits", "--set", f"evaluation.extractor.name={chosen.name}"
    )
    assert f"sha256    {chosen.sha256}\ndimension 64\n" in shown.output


@pytest.mark.end_to_end
def test_fit_images_without_labels_is_refused_in_one_line(tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(20):
        Image.new("L", (16, 16), number * 10).save(tmp_path / "images" / f"{number}.png")
    path = tmp_path / "config.yaml"
    path.write_text("data: {input: images, image_size: 16, channels: 1}\n")
    done = _fit(tmp_path, path, "--root", "root")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "tfx-wgan: an extractor is fitted to labels: the data has none; allowed: two classes or "
        "more, such as one folder of images for each"
    )
    assert not list((tmp_path / "root" / "extractors").iterdir())
