"""Reading transformed examples, and the order they are trained in."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import data
from trainer.errors import TrainerError

IMAGES = np.arange(7 * 4 * 4 * 3, dtype=np.uint8).reshape(7, 4, 4, 3)
LABELS = np.arange(7) % 3


def _load(*patterns, image_size=4, channels=3, labelled=True):
    return data.load(
        [str(p) for p in patterns], image_size=image_size, channels=channels, labelled=labelled
    )


def test_load_shards_in_any_split_give_the_same_dataset(write_examples, tmp_path):
    write_examples(tmp_path / "one" / "a.gz", IMAGES, LABELS)
    records = list(
        tf.data.TFRecordDataset(str(tmp_path / "one" / "a.gz"), "GZIP").as_numpy_iterator()
    )
    for name, part in (("b-0.gz", records[4:]), ("b-1.gz", records[:4])):
        (tmp_path / "two").mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(tmp_path / "two" / name), "GZIP") as writer:
            for record in part:
                writer.write(record)
    whole, split = _load(tmp_path / "one" / "a.gz"), _load(tmp_path / "two" / "b-*")
    np.testing.assert_array_equal(whole.images, split.images)
    np.testing.assert_array_equal(whole.labels, split.labels)
    assert whole.fingerprint == split.fingerprint
    assert whole.images.dtype == np.uint8
    assert whole.images.shape == (7, 4, 4, 3)
    # Every image is still beside its label.
    for image, label in zip(whole.images, whole.labels, strict=True):
        original = int(np.flatnonzero((image == IMAGES).all(axis=(1, 2, 3)))[0])
        assert label == LABELS[original]


@pytest.mark.parametrize("change", ["pixel", "label"])
def test_load_other_content_has_another_fingerprint(write_examples, tmp_path, change):
    images, labels = IMAGES.copy(), LABELS.copy()
    write_examples(tmp_path / "a.gz", images, labels)
    if change == "pixel":
        images[3, 0, 0, 0] += 1
    else:
        labels[3] += 1
    write_examples(tmp_path / "b.gz", images, labels)
    assert _load(tmp_path / "a.gz").fingerprint != _load(tmp_path / "b.gz").fingerprint


def test_load_unlabelled_gives_zeros(write_examples, tmp_path):
    write_examples(tmp_path / "a.gz", IMAGES, None)
    assert not _load(tmp_path / "a.gz", labelled=False).labels.any()


def test_load_nothing_or_something_else_is_one_line(write_examples, tmp_path):
    with pytest.raises(TrainerError, match=r"none.gz: no examples found$"):
        _load(tmp_path / "none.gz")
    write_examples(tmp_path / "a.gz", IMAGES, None)
    for wrong in ({"image_size": 8}, {"channels": 1}, {"labelled": True}):
        with pytest.raises(TrainerError, match="as Transform writes them") as error:
            _load(tmp_path / "a.gz", **({"labelled": False} | wrong))
        assert "\n" not in str(error.value)
    (tmp_path / "text.gz").write_text("no record")
    with pytest.raises(TrainerError, match="as Transform writes them"):
        _load(tmp_path / "text.gz")


def _order(examples=10, seed=0, batch_size=4, critic_steps=3):
    return data.BatchOrder(examples, seed=seed, batch_size=batch_size, critic_steps=critic_steps)


def _batches(order, steps, critic_steps=3):
    return [order.indices(step, j) for step in range(steps) for j in range(critic_steps)]


def test_order_is_a_pure_function_of_seed_step_and_sub_step():
    forward = _batches(_order(), 5)
    backward = _order()
    for step in reversed(range(5)):
        for j in reversed(range(3)):
            np.testing.assert_array_equal(backward.indices(step, j), forward[step * 3 + j])
    assert not np.array_equal(_batches(_order(seed=1), 5), forward)


@pytest.mark.parametrize(("examples", "batch_size"), [(10, 4), (3, 8), (8, 8)])
def test_order_every_epoch_has_each_example_once(examples, batch_size):
    steps = 3 * examples
    stream = np.concatenate(_batches(_order(examples, batch_size=batch_size), steps))
    epochs = stream[: len(stream) // examples * examples].reshape(-1, examples)
    assert (np.sort(epochs, axis=1) == np.arange(examples)).all()
    assert not (epochs == epochs[0]).all()


def test_order_critic_steps_get_fresh_batches():
    first, second, third = _batches(_order(12), 1)
    assert len(set(first) | set(second) | set(third)) == 12


def test_feed_replicas_get_consecutive_slices_of_the_global_batch():
    images = np.arange(12, dtype=np.uint8).reshape(12, 1, 1, 1)
    dataset = data.Dataset(images, np.arange(12, dtype=np.int32) + 100, "")
    order = _order(12, batch_size=4, critic_steps=2)
    for replicas in (1, 2, 4):
        strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(replicas)])
        feed = data.Feed(dataset, order, strategy, batch_size=4, critic_steps=2, steps_per_call=3)
        for first, then in ((0, 3), (3, 4), (9, None)):  # the last not as announced
            pixels, labels = map(strategy.experimental_local_results, feed.chunk(first, then=then))
            assert pixels[0].shape == (3, 2, 4 // replicas, 1, 1, 1)
            seen = np.concatenate(pixels, axis=2)[..., 0, 0, 0]
            expected = [[order.indices(first + i, j) for j in range(2)] for i in range(3)]
            np.testing.assert_array_equal(seen, expected)
            np.testing.assert_array_equal(np.concatenate(labels, axis=2), seen + 100)
        feed.close()
