"""Images from exported models."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import sampling


def _save(folder, conditional):
    module = tf.Module()

    def draw(count, seed, label):
        value = tf.cast(seed + label, tf.uint8)
        return {"image": tf.fill([count, 4, 4, 1], value)}

    scalars = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)]
    if conditional:
        specs = [*scalars, tf.TensorSpec([], tf.int64)]
        module.sample = tf.function(
            lambda count, seed, label: draw(count, seed, label), input_signature=specs
        )
    else:
        zero = tf.constant(0, tf.int64)
        module.sample = tf.function(
            lambda count, seed: draw(count, seed, zero), input_signature=scalars
        )
    tf.saved_model.save(module, str(folder), signatures={"sample": module.sample})
    if conditional:
        (folder / "assets.extra").mkdir()
        (folder / "assets.extra" / "class_names.txt").write_text("cat\ndog\n")


def test_find_model_takes_the_newest_version_with_a_model(tmp_path):
    for version in ("9", "10", "11", "x12"):
        (tmp_path / version).mkdir()
    for version in ("9", "10"):
        (tmp_path / version / "saved_model.pb").touch()
    assert sampling.find_model(str(tmp_path)) == str(tmp_path / "10")
    assert sampling.find_model(str(tmp_path / "9")) == str(tmp_path / "9")


def test_find_model_without_model_is_refused(tmp_path):
    with pytest.raises(sampling.ModelError, match=r"no saved_model\.pb"):
        sampling.find_model(str(tmp_path / "nowhere"))


def test_draw_unconditional_model_takes_no_label(tmp_path):
    _save(tmp_path, conditional=False)
    sampler = sampling.Sampler(str(tmp_path))
    assert not sampler.conditional
    assert sampler.draw(3, seed=7).tolist() == np.full([3, 4, 4, 1], 7).tolist()
    with pytest.raises(sampling.ModelError, match="has no labels; leave --label out"):
        sampler.draw(3, seed=7, label="1")


@pytest.mark.parametrize(("label", "value"), [(None, 6), ("cat", 7), ("dog", 8), ("1", 8)])
def test_draw_conditional_model_takes_a_name_or_an_id(tmp_path, label, value):
    _save(tmp_path, conditional=True)
    sampler = sampling.Sampler(str(tmp_path))
    assert sampler.conditional
    assert set(sampler.draw(2, seed=7, label=label).flat) == {value}


@pytest.mark.parametrize("label", ["cow", "2", "-1"])
def test_draw_unknown_label_names_the_known(tmp_path, label):
    _save(tmp_path, conditional=True)
    with pytest.raises(sampling.ModelError, match="is not known; allowed: cat, dog"):
        sampling.Sampler(str(tmp_path)).draw(2, seed=7, label=label)


def test_sampler_of_a_model_without_sample_is_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(sampling.ModelError, match="no signature `sample`"):
        sampling.Sampler(str(tmp_path))


def test_sampler_of_a_corrupt_model_is_one_line(tmp_path):
    (tmp_path / "saved_model.pb").write_text("no model")
    with pytest.raises(sampling.ModelError, match="cannot be loaded") as caught:
        sampling.Sampler(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_digits_of_other_scripts_are_no_numbers(tmp_path):
    (tmp_path / "²").mkdir()
    (tmp_path / "²" / "saved_model.pb").touch()
    with pytest.raises(sampling.ModelError, match="nor in a numbered folder"):
        sampling.find_model(str(tmp_path))
    _save(tmp_path / "model", conditional=True)
    with pytest.raises(sampling.ModelError, match="label '²' is not known"):
        sampling.Sampler(str(tmp_path / "model")).draw(1, seed=0, label="²")


def _save_serving(folder, conditional):
    """A model whose image shows its latent's first number, and its label."""
    module = tf.Module()

    def serve(latent, label):
        shown = tf.stack([tf.cast(100 + 10 * latent[:, 0], tf.int64), label], axis=1)
        return {"image": tf.cast(shown, tf.uint8)[:, :, None, None]}

    specs = [tf.TensorSpec([None, 3], tf.float32, name="latent")]
    if conditional:
        specs.append(tf.TensorSpec([None], tf.int64, name="label"))
        module.serve = tf.function(serve, input_signature=specs)
    else:
        module.serve = tf.function(
            lambda latent: serve(latent, tf.zeros(tf.shape(latent)[0], tf.int64)),
            input_signature=specs,
        )
    _save(folder, conditional)
    names = tf.saved_model.load(str(folder)).signatures["sample"]
    signatures = {"serving_default": module.serve, "sample": names}
    tf.saved_model.save(module, str(folder), signatures=signatures)


@pytest.mark.parametrize("conditional", [False, True])
def test_interpolate_draws_rows_of_one_class_between_fixed_latents(tmp_path, conditional):
    _save_serving(tmp_path, conditional)
    sampler = sampling.Sampler(str(tmp_path))
    images = sampler.interpolate(rows=3, columns=5, seed=1)
    assert images.shape == (15, 2, 1, 1)
    assert images.dtype == np.uint8
    labels = images[:, 1, 0, 0].reshape(3, 5)
    expected = [0, 1, 0] if conditional else [0, 0, 0]  # two classes, in turn
    np.testing.assert_array_equal(labels, np.repeat(expected, 5).reshape(3, 5))
    np.testing.assert_array_equal(images, sampler.interpolate(rows=3, columns=5, seed=1))
    assert not np.array_equal(images, sampler.interpolate(rows=3, columns=5, seed=2))
    # A row goes from one latent to another.
    assert (images[[0, 5, 10], 0] != images[[4, 9, 14], 0]).any()


def test_arc_between_right_angles_turns_evenly():
    found = sampling.arc(np.array([[2.0, 0.0]]), np.array([[0.0, 2.0]]), points=4)
    angles = np.deg2rad([0, 30, 60, 90])
    expected = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)[None]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_arc_keeps_both_ends_whatever_their_lengths():
    random = np.random.default_rng(0)
    first, last = random.standard_normal([2, 6, 64])
    found = sampling.arc(first, last, points=7)
    np.testing.assert_allclose(found[:, 0], first, atol=1e-12)
    np.testing.assert_allclose(found[:, -1], last, atol=1e-12)
    # Straight lines between such latents are about 30% shorter in the middle.
    middle = np.linalg.norm(found[:, 3], axis=1) / np.linalg.norm(first, axis=1)
    np.testing.assert_allclose(middle, 1.0, atol=0.25)
