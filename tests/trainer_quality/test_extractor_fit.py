"""Extractors that are fitted to labelled images, in a process of their own as users have them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits

from trainer.data import Dataset
from trainer.errors import TrainerError
from trainer.options import ExtractorOptions, ModelOptions, TrainingOptions
from trainer.quality.extractors import create, files, fit
from trainer.quality.frechet import relative_frechet_distance
from trainer.quality.moments import Moments
from trainer.state import State
from trainer.validation import Validator

DIGITS = load_digits()
ORDER = np.random.default_rng(0).permutation(len(DIGITS.images))
IMAGES = np.clip(DIGITS.images[ORDER] * 16, 0, 255).astype(np.uint8)
IMAGES = IMAGES.repeat(2, axis=1).repeat(2, axis=2)[..., np.newaxis]
LABELS = DIGITS.target[ORDER]
HELDOUT = 300


def _bytes(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _write(path, images, labels):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            feature = {
                "image": _bytes(image.tobytes()),
                "example_id": _bytes(b"%08d" % number),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit")
    _write(path / "train", IMAGES[HELDOUT:], LABELS[HELDOUT:])
    heldout_labels = LABELS[:HELDOUT].copy()
    heldout_labels[:5] = -1
    _write(path / "eval", IMAGES[:HELDOUT], heldout_labels)
    return path


def _job(folder, output, **options):
    values = {
        "train_files": (str(folder / "train"),),
        "eval_files": (str(folder / "eval"),),
        "class_names": tuple("0123456789"),
        "image_size": 16,
        "channels": 1,
        "steps": 120,
        "cache_dir": str(folder / "cache"),
        "output_dir": str(folder / output),
    }
    return fit.FitJob(**(values | options))


def _run(folder, job):
    path = folder / "job.json"
    path.write_text(job.model_dump_json())
    return subprocess.run(
        [sys.executable, "-m", "trainer.quality.extractors.fit", str(path)],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def fitted(folder):
    done = _run(folder, _job(folder, "extractor"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_fit_tells_what_came_of_it(folder, fitted):
    assert fitted["accuracy"] > 0.95
    assert fitted["heldout_images"] == HELDOUT - 5  # those of known classes
    assert fitted["training_images"] == len(IMAGES) - HELDOUT
    assert fitted["class_names"] == list("0123456789")
    assert (fitted["steps"], fitted["seed"]) == (120, 0)
    assert json.loads((folder / "extractor" / "extractor.json").read_text()) == fitted


def test_fit_accuracy_is_that_of_the_signature_classify(folder, fitted):
    model = tf.saved_model.load(str(folder / "extractor"))
    logits = model.signatures["classify"](image=tf.constant(IMAGES[5:HELDOUT]))["class_logits"]
    right = np.argmax(logits.numpy(), axis=1) == LABELS[5:HELDOUT]
    assert fitted["accuracy"] == pytest.approx(right.mean(), abs=1e-12)


def test_fit_again_gives_the_same_files(folder, fitted):
    assert _run(folder, _job(folder, "again")).returncode == 0
    assert files.sha256(str(folder / "again")) == files.sha256(str(folder / "extractor"))


def test_fit_seed_decides_the_weights(folder):
    found = set()
    for seed in (0, 1):
        fit.run(_job(folder, f"seed-{seed}", seed=seed, steps=1))
        extract = create(ExtractorOptions(name=str(folder / f"seed-{seed}")))
        found.add(extract(IMAGES[:8]).tobytes())
    assert len(found) == 2


def test_fitted_features_are_bounded_and_each_images_own(folder, fitted):
    extract = create(ExtractorOptions(name=str(folder / "extractor")))
    features = extract(IMAGES)
    assert features.shape == (len(IMAGES), 64)
    assert np.abs(features).max() <= 16.0
    # Normalised by moving averages, so not exactly.
    assert 0.5 < features.std(axis=0).mean() < 2.0
    np.testing.assert_array_equal(extract(IMAGES[:3]), features[:3])
    noise = np.random.default_rng(1).integers(0, 256, [50, 16, 16, 1], np.uint8)
    assert np.abs(extract(noise)).max() <= 16.0


def test_fitted_features_order_degradations_of_images(folder, fitted):
    extract = create(ExtractorOptions(name=str(folder / "extractor")))
    generator = np.random.default_rng(2)
    half, real = IMAGES[900:], Moments.of(extract(IMAGES[:900]))

    def distance(images):
        return relative_frechet_distance(real, Moments.of(extract(images)))

    def noisy(share):
        noise = generator.normal(0, 255 * share, half.shape)
        return np.clip(half + noise, 0, 255).astype(np.uint8)

    worse = [distance(half), distance(noisy(0.1)), distance(noisy(0.3)), distance(noisy(0.8))]
    assert worse == sorted(worse)
    assert worse[0] < 0.1 < worse[2]
    few = half[LABELS[900:] < 5]
    assert distance(few) > 5 * worse[0]


def test_fitted_extractor_measures_during_training(folder, fitted):

    model = ModelOptions(latent_dim=8, generator_channels=4, critic_channels=4)
    options = TrainingOptions(validation_images=200)
    state = State(model, options, image_size=16, channels=1, classes=0)
    heldout = Dataset.of_arrays(IMAGES[:HELDOUT], LABELS[:HELDOUT])

    def distance(extractor):
        return Validator(state, options, heldout, extractor).measure().distance

    by_fitted = distance(ExtractorOptions(name=str(folder / "extractor")))
    assert by_fitted > 0.1
    assert by_fitted != pytest.approx(distance(ExtractorOptions()), rel=0.01)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"class_names": ()}, "an extractor is fitted to labels: the data has none; allowed: two"),
        ({"class_names": ("a",)}, "an extractor is fitted to labels: the data has 1; allowed: two"),
        ({"train_files": ("/none",)}, "training data /none: no examples found"),
        ({"image_size": 32}, "not 32x32x1 examples"),
    ],
)
def test_fit_of_what_cannot_be_fitted_to_is_one_line(folder, options, line):
    with pytest.raises(TrainerError, match=line) as caught:
        fit.run(_job(folder, "none", **options))
    assert "\n" not in str(caught.value)
    assert not (folder / "none").exists()


def test_fit_of_no_job_exits_2(tmp_path, capsys):
    path = tmp_path / "job.json"
    path.write_text('{"steps": 0}')
    assert fit.main([str(path)]) == 2
    assert fit.main([]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "not a job" in lines[0]
    assert lines[1] == "usage: python -m trainer.quality.extractors.fit JOB.json"
