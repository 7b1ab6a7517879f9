"""The SavedModel, in a process that has none of our code."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from trainer import export, networks
from trainer import step as steps
from trainer.options import ModelOptions, TrainingOptions
from trainer.state import State

MODEL = ModelOptions(latent_dim=8, generator_channels=4, critic_channels=4)

# Loads a model and exercises its signatures; argument: the folder. Ours and Keras are not there.
CLEAN_PROCESS = """
import sys
for name in ("trainer", "components", "pipeline", "tf_keras", "keras"):
    sys.modules[name] = None
import numpy as np
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
classes, channels = int(sys.argv[2]), int(sys.argv[3])
serve, sample, score = (model.signatures[k] for k in ("serving_default", "sample", "score"))
label = {"label": tf.constant([0, 2], tf.int64)} if classes else {}
one = {"label": tf.constant(-1, tf.int64)} if classes else {}
assert set(model.signatures) == {"serving_default", "sample", "score"}
image = serve(latent=tf.zeros([2, 8]), **label)["image"]
assert image.dtype == tf.uint8 and image.shape == [2, 16, 16, channels], image
out = sample(count=tf.constant(5), seed=tf.constant(3, tf.int64), **one)
assert set(out) == {"image", "png_bytes"}
assert out["image"].dtype == tf.uint8 and out["image"].shape == [5, 16, 16, channels]
assert out["png_bytes"].dtype == tf.string and out["png_bytes"].shape == [5]
for png, pixels in zip(out["png_bytes"], out["image"]):
    assert (tf.io.decode_png(png).numpy() == pixels.numpy()).all()
again = model.sample(tf.constant(5), tf.constant(3, tf.int64))  # -1 is the label's default
other = model.sample(tf.constant(5), tf.constant(4, tf.int64))
assert (again["image"].numpy() == out["image"].numpy()).all()
assert (other["image"].numpy() != out["image"].numpy()).any()
critic = score(image=image, **label)["critic"]
assert critic.dtype == tf.float32 and critic.shape == [2]
print("served", np.isfinite(critic.numpy()).all())
"""


def _state(classes, channels=1):
    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
    with strategy.scope():
        state = State(
            MODEL, TrainingOptions(seed=1), image_size=16, channels=channels, classes=classes
        )
    for i, weight in enumerate(state.ema_generator.trainable_variables):
        weight.assign_add(0.1 * tf.random.stateless_normal(weight.shape, [1, i]))
    return state


@pytest.mark.parametrize(("classes", "channels"), [(0, 1), (3, 3)])
def test_save_clean_process_serves_every_signature(tmp_path, classes, channels):
    names = ["a", "b c", "ü"][:classes]
    export.save(_state(classes, channels), MODEL, str(tmp_path / "model"), class_names=names)
    command = [sys.executable, "-I", "-c", CLEAN_PROCESS]
    done = subprocess.run(
        [*command, str(tmp_path / "model"), str(classes), str(channels)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "served True" in done.stdout
    path = tmp_path / "model" / "assets.extra" / "class_names.txt"
    assert (path.read_text().splitlines() if classes else path.exists()) == (names or False)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_save_outputs_are_those_of_the_average_generator_and_the_critic(tmp_path):
    state = _state(3)
    (tmp_path / "model" / "old").mkdir(parents=True)
    export.save(state, MODEL, str(tmp_path / "model"))
    assert not (tmp_path / "model" / "old").exists()
    signatures = tf.saved_model.load(str(tmp_path / "model")).signatures
    latent = tf.random.stateless_normal([4, 8], [1, 2])
    label = tf.constant([0, 1, 2, 1], tf.int64)
    image = signatures["serving_default"](latent=latent, label=label)["image"]
    expected = steps.to_pixels(networks.call(state.ema_generator, latent, label))
    np.testing.assert_array_equal(image, expected)
    current = steps.to_pixels(networks.call(state.generator, latent, label))
    assert not np.array_equal(image, current)
    critic = signatures["score"](image=image, label=label)["critic"]
    score = networks.call(state.critic, steps.to_float(image), label)
    np.testing.assert_allclose(critic, score, rtol=1e-4)


def test_save_sample_label_chooses_the_class(tmp_path):
    state = _state(3)
    for layer in state.ema_generator.layers:
        if isinstance(layer, networks.LayerNorm):
            layer.gain.assign(tf.zeros_like(layer.gain))  # the image depends on the class alone
            layer.bias.assign(tf.random.stateless_normal(layer.bias.shape, [3, 3]))
    export.save(state, MODEL, str(tmp_path / "model"))
    sample = tf.saved_model.load(str(tmp_path / "model")).signatures["sample"]

    def images(count, label):
        label = tf.constant(label, tf.int64)
        out = sample(count=tf.constant(count), seed=tf.constant(9, tf.int64), label=label)
        return out["image"].numpy()

    each = [images(1, k)[0] for k in range(3)]
    assert (images(4, 1) == each[1]).all()
    drawn = images(300, -1)
    shares = [(drawn == image).all(axis=(1, 2, 3)).mean() for image in each]
    assert sum(shares) == pytest.approx(1.0)
    assert min(shares) > 0.25
