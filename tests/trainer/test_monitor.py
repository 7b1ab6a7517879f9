"""What a run writes while it goes on, read back."""

import json

import pytest
import tensorflow as tf

from trainer.errors import TrainerError
from trainer.monitor import Monitor
from trainer.state import State
from trainer.validation import Measurement

METRICS = {"critic_loss": -1.0, "wasserstein": 2.0}
MEASURED = Measurement(
    distance=0.5, deviation=0.9, wasserstein=1.5, gradient_norms=tf.constant([1.0, 2.0]).numpy()
)


@pytest.fixture
def state(job):
    return State(job.model, job.training, image_size=16, channels=1, classes=2)


def _monitor(job, tmp_path, state, seconds=(0.0, 2.0, 6.0)):
    ticks = iter(seconds)
    return Monitor(job, str(tmp_path / "folder"), state, clock=lambda: next(ticks))


def _events(job):
    """Tags of TensorBoard's records by step."""
    found = {}
    for path in tf.io.gfile.glob(f"{job.log_dir}/events*"):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found.setdefault(event.step, []).append((value.tag, value))
    return found


def test_monitor_lines_hold_metrics_and_speed_since_the_line_before(job, tmp_path, state):
    monitor = _monitor(job, tmp_path, state)
    monitor.begin(10)
    monitor.metrics(20, METRICS, None)
    monitor.metrics(30, METRICS, MEASURED)
    monitor.close()
    lines = (tmp_path / "folder" / "metrics.jsonl").read_text().splitlines()
    # 10 steps of 2 batches of 8 images in 2, and in 4 seconds.
    first = {"step": 20, **METRICS, "images_per_second": 80.0}
    assert json.loads(lines[0]) == first
    validated = {
        "validation_distance": 0.5,
        "validation_wasserstein": 1.5,
        "sample_deviation": 0.9,
    }
    assert json.loads(lines[1]) == {"step": 30, **METRICS, **validated, "images_per_second": 40.0}
    assert len(lines) == 2


def test_monitor_begins_again_without_lines_that_are_trained_again(job, tmp_path, state):
    monitor = _monitor(job, tmp_path, state, range(9))
    monitor.begin(0)
    for step in (1, 2, 3):
        monitor.metrics(step, METRICS, None)
    monitor.begin(2)
    monitor.metrics(3, METRICS | {"wasserstein": 7.0}, None)
    monitor.close()
    lines = (tmp_path / "folder" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
    assert json.loads(lines[-1])["wasserstein"] == 7.0


def test_monitor_tensorboard_has_scalars_histograms_and_images(job, tmp_path, state):
    monitor = _monitor(job, tmp_path, state)
    monitor.begin(0)
    monitor.metrics(5, METRICS, MEASURED)
    monitor.samples(5)
    monitor.close()
    values = dict(_events(job)[5])
    scalars = {"critic_loss", "wasserstein", "validation_distance", "validation_wasserstein"}
    assert scalars | {"gradient_norms", "samples", "images_per_second"} <= values.keys()
    assert tf.make_ndarray(values["validation_distance"].tensor) == pytest.approx(0.5)
    assert values["gradient_norms"].metadata.plugin_data.plugin_name == "histograms"
    picture = tf.io.decode_png(tf.make_ndarray(values["samples"].tensor)[2])
    assert picture.shape == [8 * 17 - 1, 8 * 17 - 1, 1]


def test_monitor_folder_that_cannot_be_written_is_one_line(job, tmp_path, state):
    (tmp_path / "folder").write_text("a file where the folder should be")
    with pytest.raises(TrainerError, match=r"cannot be written \(.*\): training was stopped") as e:
        _monitor(job, tmp_path, state).begin(0)
    assert "\n" not in str(e.value)


def _pictures(tmp_path):
    return sorted(path.name for path in (tmp_path / "folder" / "samples").iterdir())


def test_monitor_samples_of_the_same_latents_are_files_from_the_beginning_on(job, tmp_path, state):
    monitor = _monitor(job, tmp_path, state)
    monitor.begin(0)
    monitor.samples(5)
    monitor.close()
    assert _pictures(tmp_path) == ["step-00000000.png", "step-00000005.png"]
    first, second = (
        (tmp_path / "folder" / "samples" / name).read_bytes() for name in _pictures(tmp_path)
    )
    assert first == second  # nothing was trained in between
    assert tf.io.decode_png(first).shape == [8 * 17 - 1, 8 * 17 - 1, 1]


def test_monitor_begins_again_without_pictures_that_are_drawn_again(job, tmp_path, state):
    monitor = _monitor(job, tmp_path, state, range(9))
    monitor.begin(0)
    for step in (3, 6, 9):
        monitor.samples(step)
    # Left by a process that was killed while it wrote.
    (tmp_path / "folder" / "samples" / "step-00000003.png.tmp-17").write_bytes(b"half")
    monitor.begin(6)
    monitor.close()
    assert _pictures(tmp_path) == [f"step-0000000{step}.png" for step in (0, 3, 6)]
