"""ServingValidator: real SavedModels in a real clean process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tensorflow as tf
from tfx.components.util import model_utils
from tfx.types import standard_artifacts

from components.serving_validator import executor


def validate(model_dir: Path, image_size: int = 16, timeout_seconds: float = 300):
    return executor.validate(
        str(model_dir), image_size=image_size, channels=1, timeout_seconds=timeout_seconds
    )


@pytest.mark.parametrize("name", ["good", "unconditional"])
def test_validate_sound_model_passes_every_check(models, name):
    report = validate(models[name])
    assert report["blessed"], report
    assert [check["name"] for check in report["checks"]] == [
        "load",
        "signatures",
        "serving_default",
        "sample",
        "sample by class",
        "png",
        "score",
    ]


def test_validate_other_image_size_names_what_was_found(models):
    report = validate(models["unconditional"], image_size=32)
    assert not report["blessed"]
    assert "uint8 [1, 16, 16, 1], not uint8 [1, 32, 32, 1]" in report["reason"]


def test_validate_timeout_refuses(models):
    report = validate(models["good"], timeout_seconds=0.05)
    assert not report["blessed"]
    assert report["reason"] == "Refused: no answer within 0.05 seconds."


def test_validate_no_model_refuses(tmp_path):
    report = validate(tmp_path)
    assert not report["blessed"]
    assert report["reason"].startswith("Refused: load: OSError")


class _Broken(tf.Module):
    """Signatures of the right form that break the contract in one point each."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="latent")])
    def generate(self, latent):
        return {"image": tf.zeros([tf.shape(latent)[0], 16, 16, 1], tf.uint8)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([], tf.int32, name="count"),
            tf.TensorSpec([], tf.int64, name="seed"),
        ]
    )
    def sample(self, count, seed):
        images = tf.cast(tf.random.uniform([count, 16, 16, 1], 0, 256, tf.int32), tf.uint8)
        return {"image": images, "png_bytes": tf.fill([count], "not a png")}

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 1], tf.uint8, name="image")])
    def score(self, image):
        return {"critic": tf.fill([tf.shape(image)[0]], float("nan"))}


def test_validate_broken_model_names_every_broken_promise(tmp_path):
    module = _Broken()
    signatures = {
        "serving_default": module.generate,
        "sample": module.sample,
        "score": module.score,
    }
    tf.saved_model.save(module, str(tmp_path), signatures)
    report = validate(tmp_path)
    assert not report["blessed"]
    assert "(and 3 more)" in report["reason"]
    details = {check["name"]: check["detail"] for check in report["checks"] if not check["ok"]}
    assert details["serving_default"] == "different latents gave the same image"
    assert details["sample"] == "the same seed gave different images"
    assert details["png"].startswith("InvalidArgumentError")
    assert details["score"].startswith("a score is not finite")


def test_validate_missing_signature_is_named(tmp_path):
    module = _Broken()
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.generate})
    report = validate(tmp_path)
    assert report["reason"] == (
        "Refused: signatures: missing: sample, score; found: serving_default."
    )


@pytest.mark.parametrize(("remove", "blessed"), [(False, True), (True, False)])
def test_executor_marks_the_artifact_as_tfx_does(models, tmp_path, remove, blessed):
    artifact_dir = tmp_path / "model"
    shutil.copytree(models["unconditional"], artifact_dir / "Format-Serving")
    if remove:
        (artifact_dir / "Format-Serving" / "saved_model.pb").unlink()
    model, blessing = standard_artifacts.Model(), standard_artifacts.InfraBlessing()
    model.uri, blessing.uri = str(artifact_dir), str(tmp_path / "blessing")
    executor.Executor().Do(
        {"model": [model]},
        {"blessing": [blessing]},
        {"image_size": 16, "channels": 1, "timeout_seconds": 300},
    )
    marker = "INFRA_BLESSED" if blessed else "INFRA_NOT_BLESSED"
    assert {path.name for path in Path(blessing.uri).iterdir()} == {marker, "report.json"}
    assert model_utils.is_infra_validated(blessing) is blessed
    assert blessing.get_string_custom_property("blessing_status") == marker
    assert json.loads(Path(blessing.uri, "report.json").read_text())["blessed"] is blessed
