"""`python -m trainer`: training without TFX, from the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from trainer import __main__ as command
from trainer import data, standalone
from trainer.errors import TrainerError
from trainer.options import ModelOptions, TrainingOptions

REPOSITORY = Path(__file__).resolve().parents[2]
SMALL = """
model: {latent_dim: 8, generator_channels: 4, critic_channels: 4}
training: {steps: 3, global_batch_size: 8, critic_steps: 1}
data: {input: elsewhere, image_size: 64}
runtime: {root: elsewhere}
"""


def _run(*arguments):
    # As a user's, who has not asked TensorFlow to be quiet.
    environment = {key: value for key, value in os.environ.items() if "TF_CPP" not in key}
    return subprocess.run(
        [sys.executable, "-m", "trainer", *map(str, arguments)],
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )


def _images(count, channels=1, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, [count, 16, 16, channels], np.uint8)


@pytest.fixture
def arrays(tmp_path):
    """A folder with 24 labelled images to train on and 12 held out."""
    folder = tmp_path / "arrays"
    folder.mkdir()
    for name, count in (("train", 24), ("eval", 12)):
        labels = np.arange(count) % 3
        np.savez(folder / f"{name}.npz", images=_images(count), labels=labels)
    (folder / "class_names.txt").write_text("a\nb b\nc\n")
    return folder


def test_main_trains_on_arrays_with_a_pipelines_file_and_goes_on(arrays, tmp_path):
    config = tmp_path / "small.yaml"
    config.write_text(SMALL)
    arguments = ["--data", arrays, "--config", config, "--output", tmp_path / "out"]
    done = _run(*arguments)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("training on one device, CPU:0, 1 replica")
    assert lines[-2].startswith("step 3/3, ")
    assert lines[-1].startswith("exported step ")
    result = json.loads((tmp_path / "out" / "log" / "training.json").read_text())
    assert result["steps"] == 3
    assert result["best_validation_distance"] > 0
    model = tf.saved_model.load(str(tmp_path / "out" / "model"))
    drawn = model.signatures["sample"](
        count=tf.constant(2), seed=tf.constant(0, tf.int64), label=tf.constant(1, tf.int64)
    )
    assert drawn["image"].shape == [2, 16, 16, 1]
    names = tmp_path / "out" / "model" / "assets.extra" / "class_names.txt"
    assert names.read_text() == "a\nb b\nc\n"

    # Elsewhere and on two replicas: the devices of the new process are still to be configured.
    moved = shutil.move(arrays, tmp_path / "moved")
    arguments[1] = moved
    again = _run(*arguments, "--set", "training.replicas=2")
    assert again.returncode == 0, again.stderr
    assert "2 replicas (picked by auto): going on from step 3" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--set", "training.stepps=1"], "trainer: training.stepps: unknown key; allowed: steps"),
        (["--set", "trainning=1"], "trainer: trainning: unknown key; allowed: model, training"),
        (["--set", "training.steps=x"], "trainer: training.steps: got 'x'; allowed: a whole"),
        (["--set", "training.replicas=7"], "trainer: training.global_batch_size: got 64"),
        (["--set", "training.warm_start=served"], "trainer: training.warm_start: got served"),
        (["--set", "training.warm_start=/none"], "trainer: training.warm_start: got '/none'"),
        (["--config", "/none.yaml"], "trainer: configuration '/none.yaml': cannot be read: No"),
        (["--data", "/none"], "trainer: --data /none: no such file or folder"),
    ],
)
def test_main_wrong_configuration_exits_2_with_one_line_and_writes_nothing(
    tmp_path, arguments, line
):
    fixed = ["--data", str(tmp_path), "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(command.main, fixed + arguments)
    assert done.exit_code == 2
    assert done.output.startswith(line)
    assert len(done.output.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_main_options_wrong_together_exit_2_with_one_line(tmp_path):
    wrong = ["--set", "model.generator_norm=batch", "--set", "training.accumulation_steps=2"]
    fixed = ["--data", str(tmp_path), "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(command.main, fixed + wrong)
    assert done.exit_code == 2
    assert done.output.startswith("trainer: training.accumulation_steps: got 2 with model.gener")


def test_main_help_teaches():
    done = CliRunner().invoke(command.main, ["--help"])
    assert done.exit_code == 0
    for word in ("train.npz", "Split-train/", "model/", "training/", "TF_CONFIG", "75"):
        assert word in done.output


def test_main_wrong_key_is_refused_before_tensorflow_is_imported():
    code = (
        "import sys\nfrom trainer import __main__ as command\n"
        "command.main(['--data', '.', '--output', 'x', '--set', 'a=1'], standalone_mode=False)"
    )
    code = f"try:\n  {code.replace(chr(10), chr(10) + '  ')}\n" + (
        "except command.UserError: print('tensorflow' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_main_folder_without_data_exits_1_with_one_line(tmp_path):
    fixed = ["--data", str(tmp_path), "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(command.main, fixed)
    assert done.exit_code == 1
    assert done.output.startswith(f"trainer: --data {tmp_path}: nothing to train on; allowed: ")
    assert len(done.output.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_main_output_that_cannot_be_written_exits_1_with_one_line(arrays, tmp_path):
    (tmp_path / "file").touch()
    fixed = ["--data", str(arrays), "--output", str(tmp_path / "file" / "out")]
    done = CliRunner().invoke(command.main, fixed)
    assert done.exit_code == 1
    assert done.output.startswith("trainer: --output: ")
    assert len(done.output.splitlines()) == 1


def _job(source, output):
    return standalone.make_job(ModelOptions(), TrainingOptions(), str(source), str(output))


@pytest.mark.parametrize("names", [("train", "eval"), ("Split-train/part", "Split-eval/part")])
def test_make_job_takes_records_as_they_are(tmp_path, write_examples, names):
    for name, count in zip(names, (8, 4), strict=True):
        path = tmp_path / "data" / f"{name}-00000-of-00001.gz"
        write_examples(path, _images(count, channels=3), np.arange(count) % 2)
    job = _job(tmp_path / "data", tmp_path / "out")
    assert (job.image_size, job.channels, job.class_names) == (16, 3, ("0", "1"))
    assert job.train_files == (str(tmp_path / "data" / f"{names[0]}-00000-of-00001.gz"),)
    assert job.eval_files == (str(tmp_path / "data" / f"{names[1]}-00000-of-00001.gz"),)
    assert not (tmp_path / "out").exists()


def _npz(folder):
    np.savez(folder / "train.npz", images=_images(8), labels=np.arange(8))
    np.savez(folder / "eval.npz", images=_images(4), labels=np.arange(4))
    return folder


def _folders(folder):
    for name, count in (("train", 8), ("eval", 4)):
        (folder / name).mkdir()
        np.save(folder / name / "images.npy", _images(count))
        np.save(folder / name / "labels.npy", np.arange(count))
    return folder


def _one_file(folder):
    np.savez(folder / "some.npz", images=_images(8)[..., 0], labels=np.arange(8))
    return folder / "some.npz"


def _one_folder(folder):
    np.save(folder / "images.npy", _images(8))
    np.save(folder / "labels.npy", np.arange(8))
    return folder


@pytest.mark.parametrize("make", [_npz, _folders, _one_file, _one_folder])
def test_make_job_copies_arrays_once_and_bit_by_bit(tmp_path, make):
    (tmp_path / "data").mkdir()
    source = make(tmp_path / "data")
    job = _job(source, tmp_path / "out")
    assert (job.image_size, job.channels, len(job.class_names)) == (16, 1, 8)
    loaded = data.load(
        job.train_files,
        image_size=16,
        channels=1,
        labelled=True,
        memory_bytes=2**30,
        cache_dir=str(tmp_path),
    )
    images, labels = loaded.gather(np.arange(8))
    np.testing.assert_array_equal(images, _images(8))
    np.testing.assert_array_equal(labels, np.arange(8))
    assert bool(job.eval_files) == (make in (_npz, _folders))
    before = os.stat(job.train_files[0]).st_mtime_ns
    assert _job(source, tmp_path / "out") == job
    assert os.stat(job.train_files[0]).st_mtime_ns == before


def test_make_job_unlabelled_arrays_have_no_classes(tmp_path):
    np.savez(tmp_path / "train.npz", images=_images(8))
    assert _job(tmp_path, tmp_path / "out").class_names == ()
    with pytest.raises(TrainerError, match=r"^model\.conditional: got true, but the data has no"):
        standalone.make_job(
            ModelOptions(conditional=True), TrainingOptions(), str(tmp_path), str(tmp_path / "out")
        )


def test_make_job_too_few_class_names_are_refused(arrays, tmp_path):
    (arrays / "class_names.txt").write_text("a\n")
    with pytest.raises(TrainerError, match=r"class_names\.txt: got 1 names; the labels go up to 2"):
        _job(arrays, tmp_path / "out")


def test_make_job_more_classes_than_images_are_refused(tmp_path):
    """Ids in place of classes; nobody's memory would do for the networks."""
    np.savez(tmp_path / "train.npz", images=_images(8), labels=np.arange(8) * 10**6)
    with pytest.raises(
        TrainerError, match=r"got labels up to 7000000 for 8 images; allowed: class"
    ):
        _job(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("labels", [None, np.arange(4)])
def test_make_job_held_out_images_of_another_kind_are_refused(arrays, tmp_path, labels):
    images = _images(4) if labels is None else np.zeros((4, 28, 28), np.uint8)
    given = {} if labels is None else {"labels": labels}
    np.savez(arrays / "eval.npz", images=images, **given)
    with pytest.raises(TrainerError, match=r"the held-out images are (16|28)x.* those to train on"):
        _job(arrays, tmp_path / "out")
