"""Checkpoints on real disks: what comes back, and what a kill, a bad disk or a full one leaves."""

import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from trainer.checkpoints import Checkpoints, NonFiniteError
from trainer.errors import TrainerError
from trainer.history import History, Rollback, Validation

DTYPES = {
    "critic/down_0/kernel": "float32",
    "critic/down_0/bias": "bfloat16",
    "generator/up_0/kernel": "float64",
    "generator/up_0/scale": "float16",
    "order/seed": "uint64",
    "step": "int64",
}


def _values(seed):
    """Random bits; in floating ones, everything but NaN and infinities."""
    random = np.random.default_rng(seed)
    values = {}
    for name, dtype in DTYPES.items():
        shape = () if dtype == "int64" else (3, 5)
        dtype = tf.as_dtype(dtype)
        bits = random.integers(0, 256, (*shape, dtype.size), np.uint8)
        value = bits.view(dtype.as_numpy_dtype)[..., 0]
        if dtype.is_floating:
            with np.errstate(invalid="ignore"):
                value[~np.isfinite(value.astype(np.float64))] = 1.0
            value[0, 0] = -0.0
            bits[0, 1] = [1] + [0] * (dtype.size - 1)  # the smallest number, not a normal one
        values[name] = value
    return values


def _variables(seed=0):
    return {name: tf.Variable(value) for name, value in _values(seed).items()}


def _set(variables, seed):
    for name, value in _values(seed).items():
        variables[name].assign(value)


def _bits(value):
    return np.asarray(value).tobytes()


def _assert_holds(variables, seed):
    for name, value in _values(seed).items():
        assert _bits(variables[name].numpy()) == _bits(value), name


def _history(step, best=1):
    """Whose best validation was at a step."""
    return History(
        validations=tuple(
            Validation(step=i, distance=0.5 if i == best else 1.0 + i, deviation=1.0)
            for i in range(1, step + 1)
        )
    )


class _Run:
    """Checkpoints of fresh variables over a folder, and the lines that they report."""

    def __init__(self, folder, keep=3, variables=None):
        self.lines = []
        self.variables = _variables() if variables is None else variables
        self.checkpoints = Checkpoints(
            str(folder), self.variables, keep=keep, report=self.lines.append
        )

    def save(self, step, history=None):
        """Saves values that are made from the step."""
        _set(self.variables, step)
        self.checkpoints.save(step, _history(step) if history is None else history)
        return self.checkpoints.wait()


@pytest.fixture
def saved(tmp_path):
    """A folder with checkpoints of steps 1 and 2."""
    run = _Run(tmp_path / "saved")
    assert [run.save(1), run.save(2)] == [1, 2]
    assert run.lines == []
    run.checkpoints.close()
    return tmp_path / "saved"


def _names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# What comes back.


@pytest.mark.parametrize("replicas", [1, 2])
def test_restore_newest_gives_back_every_bit(tmp_path, replicas):
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
    with strategy.scope():
        run = _Run(tmp_path, variables=_variables())
        run.save(3)
        run.save(4, History(validations=(Validation(step=4, distance=0.1, deviation=1e-320),)))
        again = _Run(tmp_path, variables=_variables())
        found = again.checkpoints.restore_newest()
    history = History(validations=(Validation(step=4, distance=0.1, deviation=1e-320),))
    assert found == (4, history)
    assert again.checkpoints.wait() == 4
    assert again.lines == []
    for name, value in _values(4).items():
        copies = strategy.experimental_local_results(again.variables[name])
        assert [_bits(copy.numpy()) for copy in copies] == [_bits(value)] * replicas, name


def test_restore_newest_of_a_network_in_mixed_precision_and_its_optimizer(tmp_path):
    def variables(seed):
        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            tf_keras.utils.set_random_seed(seed)
            layer = tf_keras.layers.Dense(3, dtype="mixed_bfloat16")
            layer.build([None, 2])
            optimizer = tf_keras.optimizers.Adam(0.1)
            optimizer.build(layer.trainable_variables)
            optimizer.iterations.assign(seed)
        return {str(i): v for i, v in enumerate(layer.variables + optimizer.variables)}

    run = _Run(tmp_path, variables=variables(1))
    run.checkpoints.save(1, History())
    run.checkpoints.close()
    again = _Run(tmp_path, variables=variables(2))
    assert again.checkpoints.restore_newest() == (1, History())
    assert len(run.variables) >= 7  # kernel and bias, two moments of each, the iterations
    for name, variable in run.variables.items():
        assert variable.dtype in (tf.float32, tf.int64)
        assert _bits(again.variables[name].numpy()) == _bits(variable.numpy())


def test_restore_on_more_replicas_gives_every_copy_the_bits(saved):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
    with strategy.scope():
        variables = _variables()
    _Run(saved, variables=variables).checkpoints.restore_newest()  # outside the scope
    for name, value in _values(2).items():
        copies = strategy.experimental_local_results(variables[name])
        assert [_bits(copy.numpy()) for copy in copies] == [_bits(value)] * 3, name


def test_save_can_be_read_by_tensorflow_alone(saved):
    reader = tf.train.load_checkpoint(str(saved / "step-00000002" / "variables"))
    assert reader.get_variable_to_shape_map() == {
        name: list(value.shape) for name, value in _values(2).items()
    }
    for name, value in _values(2).items():
        assert _bits(reader.get_tensor(name)) == _bits(value)


def test_restore_newest_of_nothing_is_none_and_touches_nothing(tmp_path):
    run = _Run(tmp_path / "none")
    assert run.checkpoints.restore_newest() is None
    assert run.checkpoints.wait() is None
    assert run.checkpoints.steps() == []
    assert not (tmp_path / "none").exists()
    _assert_holds(run.variables, 0)


def test_restore_of_an_older_step_is_that_one(saved):
    run = _Run(saved)
    assert run.checkpoints.restore(1) == _history(1)
    _assert_holds(run.variables, 1)
    assert run.checkpoints.steps() == [1, 2]


def test_restore_of_no_checkpoint_is_one_line(saved):
    run = _Run(saved)
    with pytest.raises(TrainerError, match=r"step 7 .* missing; checkpoints there: 1, 2$"):
        run.checkpoints.restore(7)
    _assert_holds(run.variables, 0)


def test_checkpoints_in_a_file_system_without_renaming_of_folders():
    folder = f"ram://{uuid.uuid4().hex}/checkpoints"
    run = _Run(folder, keep=2)
    for step in (1, 2, 3):
        run.save(step, _history(step, best=step))
    run.save(3, _history(3, best=2))
    assert run.lines == []
    run.checkpoints.roll_back(2, _history(2, best=1))
    again = _Run(folder)
    assert again.checkpoints.restore_newest() == (2, _history(2, best=1))
    _assert_holds(again.variables, 2)
    assert tf.io.gfile.listdir(folder) == ["step-00000002"]


def test_record_elsewhere_comes_last_and_goes_first(monkeypatch):
    events = []

    def noted(what):
        change = getattr(tf.io.gfile, what)

        def noting(path, *args, **kwargs):
            events.append((what, Path(path).name))
            return change(path, *args, **kwargs)

        return noting

    run = _Run(f"ram://{uuid.uuid4().hex}/checkpoints", keep=1)
    run.save(1)
    for what in ("rename", "remove", "rmtree"):
        monkeypatch.setattr(tf.io.gfile, what, noted(what))
    run.save(2, _history(2, best=2))
    assert sorted(events[:2]) == [("rename", DATA), ("rename", INDEX)]
    assert events[2] == ("rename", RECORD)
    assert events[3][1].startswith("tmp-")
    assert events[4:] == [("remove", RECORD), ("rmtree", "step-00000001")]


# Saving.


def test_save_returns_before_the_write_and_later_updates_are_not_in_it(tmp_path, monkeypatch):
    gate, makedirs = threading.Event(), tf.io.gfile.makedirs

    def wait_then_make(path):
        assert gate.wait(60)
        makedirs(path)

    run = _Run(tmp_path, variables=_variables() | {"big": tf.Variable(tf.zeros([10**6]))})
    monkeypatch.setattr(tf.io.gfile, "makedirs", wait_then_make)
    run.checkpoints.save(1, _history(1))  # would wait for the gate for ever, if it wrote itself
    assert run.checkpoints.steps() == []
    run.variables["big"].assign_add(tf.ones([10**6]))  # in place, where TensorFlow can
    tf.raw_ops.ResourceApplyGradientDescent(
        var=run.variables["big"].handle, alpha=1.0, delta=tf.ones([10**6])
    )
    _set(run.variables, 9)
    gate.set()
    assert run.checkpoints.wait() == 1
    run.checkpoints.restore_newest()
    _assert_holds(run.variables, 0)
    assert not run.variables["big"].numpy().any()


def test_save_waits_for_the_write_before_it(tmp_path, monkeypatch):
    running, most, makedirs = [], [], tf.io.gfile.makedirs

    def count(path):
        running.append(path)
        most.append(len(running))
        makedirs(path)
        running.pop()

    monkeypatch.setattr(tf.io.gfile, "makedirs", count)
    run = _Run(tmp_path, keep=9)
    for step in range(1, 6):
        run.checkpoints.save(step, _history(step))
        assert run.checkpoints.steps()[-1:] in ([step - 1], [step], [])
        assert len(run.checkpoints.steps()) >= step - 1
    run.checkpoints.close()
    assert run.checkpoints.steps() == [1, 2, 3, 4, 5]
    assert most == [1] * 5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_save_of_a_variable_that_is_not_finite_is_refused_by_name(tmp_path, dtype, value):
    variables = {
        "fine": tf.Variable([1.0, 2.0]),
        "count": tf.Variable(2**62, dtype=tf.int64),
        "critic/first": tf.Variable(tf.cast([0.0, value], dtype)),
        "critic/second": tf.Variable([np.nan]),
    }
    run = _Run(tmp_path, variables=variables)
    with pytest.raises(NonFiniteError, match=r"^variable critic/first is not finite$"):
        run.checkpoints.save(1, History())
    assert run.checkpoints.wait() is None
    assert _names(tmp_path) == []


def test_variable_that_is_aggregated_on_reading_is_refused(tmp_path):
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        variable = tf.Variable(
            1.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
        )
    with pytest.raises(ValueError, match="variable norm/mean is aggregated on reading"):
        _Run(tmp_path, variables={"norm/mean": variable})


def test_save_of_the_same_step_replaces_it(saved):
    run = _Run(saved)
    run.checkpoints.restore_newest()
    _set(run.variables, 7)
    run.checkpoints.save(2, _history(2, best=2))
    assert run.checkpoints.wait() == 2
    assert _names(saved) == ["step-00000001", "step-00000002"]
    again = _Run(saved)
    assert again.checkpoints.restore_newest() == (2, _history(2, best=2))
    _assert_holds(again.variables, 7)


def test_save_of_the_same_step_that_was_killed_before_replaces_both(saved):
    shutil.copytree(saved / "step-00000002", saved / "old-step-00000002")
    run = _Run(saved)
    _set(run.variables, 7)
    run.checkpoints.save(2, _history(2))
    assert run.checkpoints.wait() == 2
    assert run.lines == []
    assert _names(saved) == ["step-00000001", "step-00000002"]
    _Run(saved, variables=run.variables).checkpoints.restore(2)
    _assert_holds(run.variables, 7)


def test_save_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events, fsync, rename = [], os.fsync, tf.io.gfile.rename

    def note_fsync(descriptor):
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def note_rename(source, target, overwrite=False):
        events.append((Path(source).name, Path(target).name))
        rename(source, target, overwrite)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(tf.io.gfile, "rename", note_rename)
    run = _Run(tmp_path / "folder")
    run.save(1)
    temporary = events[-2][0]
    assert sorted(events[:3]) == [RECORD, DATA, INDEX]
    assert events[3:] == [temporary, (temporary, "step-00000001"), "folder"]
    events.clear()
    run.checkpoints.roll_back(1, _history(1, best=0))
    assert events == [f"{RECORD}.new", (f"{RECORD}.new", RECORD), "step-00000001"]


# What is kept.


def test_save_keeps_the_newest_and_the_best_of_each(tmp_path):
    run = _Run(tmp_path, keep=2)
    bests = {1: 1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5, 7: 5, 8: 5}
    there = []
    for step, best in bests.items():
        run.save(step, _history(step, best))
        there.append(run.checkpoints.steps())
    assert there == [
        [1],
        [1, 2],
        [2, 3],
        [2, 3, 4],
        [2, 4, 5],  # 2 is the best for 4, which is kept
        [5, 6],
        [5, 6, 7],
        [5, 7, 8],
    ]
    assert run.lines == []


def test_save_after_a_restart_keeps_the_best_of_before(tmp_path):
    run = _Run(tmp_path, keep=1)
    for step in (1, 2, 3):
        run.save(step, _history(step, best=2))
    again = _Run(tmp_path, keep=2)
    assert again.checkpoints.restore_newest() == (3, _history(3, best=2))
    again.save(4, _history(4, best=4))
    assert again.checkpoints.steps() == [2, 3, 4]
    again.save(5, _history(5, best=4))
    assert again.checkpoints.steps() == [4, 5]


def test_save_does_not_count_broken_ones_as_kept(tmp_path):
    run = _Run(tmp_path, keep=4)
    for step in (1, 2, 4, 6):
        run.save(step, _history(step, best=step))
    _truncate(tmp_path / "step-00000004" / "variables.data-00000-of-00001")
    _truncate(tmp_path / "step-00000006" / "variables.data-00000-of-00001")
    again = _Run(tmp_path, keep=2)
    assert again.checkpoints.restore_newest()[0] == 2
    again.save(3, _history(3, best=3))
    assert again.checkpoints.steps() == [2, 3, 4, 6]  # 4 and 6 are trained again, or passed
    again.save(4, _history(4, best=4))
    assert again.checkpoints.steps() == [3, 4, 6]
    again.save(7, _history(7, best=7))
    assert again.checkpoints.steps() == [4, 7]
    assert len(again.lines) == 2
    assert _Run(tmp_path).checkpoints.restore(4) == _history(4, best=4)


def test_save_does_not_keep_a_broken_best(tmp_path):
    run = _Run(tmp_path, keep=2)
    for step in (1, 2, 3):
        run.save(step, _history(step, best=1))
    _flip(tmp_path / "step-00000001" / RECORD)
    again = _Run(tmp_path, keep=2)
    again.save(4, _history(4, best=1))
    assert again.checkpoints.steps() == [3, 4]
    assert again.lines == ["checkpoint of step 1 is passed over: its history.json is damaged"]


def test_save_keeps_an_older_one_in_place_of_a_broken_one_that_nobody_read(tmp_path):
    run = _Run(tmp_path, keep=3)
    for step in (1, 2, 3):
        run.save(step, _history(step, best=step))
    (tmp_path / "step-00000002" / "history.json").unlink()
    again = _Run(tmp_path, keep=3)
    again.checkpoints.restore_newest()
    again.save(4, _history(4, best=4))
    assert again.checkpoints.steps() == [1, 3, 4]
    assert again.lines == ["checkpoint of step 2 is passed over: its history.json is missing"]


def test_save_sweeps_what_a_dead_process_left_and_reading_does_not(saved):
    for name in ("tmp-0123456789ab-3", "tmp-0123456789ab-step-00000001"):
        shutil.copytree(saved / "step-00000002", saved / name)
    run = _Run(saved)
    assert run.checkpoints.steps() == [1, 2]
    run.checkpoints.restore_newest()
    run.checkpoints.restore(1)
    assert len(_names(saved)) == 4
    run.save(3)
    assert _names(saved) == ["step-00000001", "step-00000002", "step-00000003"]


# Damage.


def _truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path, position=None, bit=0):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 1 << bit
    path.write_bytes(content)


def _empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def _change_history(path):
    record = json.loads(path.read_text())
    record["history"]["validations"][0]["distance"] = 0.25
    path.write_text(json.dumps(record))


DATA, INDEX, RECORD = "variables.data-00000-of-00001", "variables.index", "history.json"
DAMAGES = {
    "data truncated": (lambda f: _truncate(f / DATA), r"variables cannot be read \(Read less"),
    "data flipped": (lambda f: _flip(f / DATA), r"variables cannot be read \(.*Checksum does not"),
    "data empty": (lambda f: (f / DATA).write_bytes(b""), r"variables cannot be read \(Read less"),
    "data missing": (lambda f: (f / DATA).unlink(), r"cannot be read \(No such file"),
    "index truncated": (lambda f: _truncate(f / INDEX), r"variables\.index is damaged"),
    "index flipped": (lambda f: _flip(f / INDEX), r"variables\.index is damaged"),
    "index missing": (lambda f: (f / INDEX).unlink(), r"cannot be read \(No such file"),
    "index of another": (
        lambda f: shutil.copy(f.with_name("step-00000001") / INDEX, f / INDEX),
        r"variables\.index is damaged",
    ),
    "record missing": (lambda f: (f / RECORD).unlink(), r"history\.json is missing"),
    "record truncated": (lambda f: _truncate(f / RECORD), r"history\.json is damaged"),
    "record garbage": (
        lambda f: (f / RECORD).write_bytes(b"\xff\x00{"),
        r"history\.json is damaged",
    ),
    "record a list": (lambda f: (f / RECORD).write_text("[1]"), r"history\.json is damaged"),
    "record empty": (lambda f: (f / RECORD).write_text(""), r"history\.json is damaged"),
    "history changed": (lambda f: _change_history(f / RECORD), r"history\.json is damaged"),
    "record of another": (
        lambda f: shutil.copy(f.with_name("step-00000001") / RECORD, f / RECORD),
        r"history\.json is of step 1",
    ),
    "folder empty": (_empty, r"history\.json is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_restore_newest_of_a_damaged_one_says_so_and_takes_the_one_before(saved, damage):
    hurt, reason = DAMAGES[damage]
    hurt(saved / "step-00000002")
    run = _Run(saved)
    assert run.checkpoints.restore_newest() == (1, _history(1))
    _assert_holds(run.variables, 1)
    assert len(run.lines) == 1
    assert "\n" not in run.lines[0]
    assert run.lines[0].startswith("checkpoint of step 2 is passed over: its ")
    with pytest.raises(TrainerError, match=rf"^checkpoint of step 2 in .*{reason}"):
        run.checkpoints.restore(2)
    _assert_holds(run.variables, 1)


@pytest.mark.parametrize("name", [DATA, INDEX, RECORD])
def test_restore_newest_after_any_flipped_bit_never_gives_other_bits(saved, name):
    path = saved / "step-00000002" / name
    whole = path.read_bytes()
    run = _Run(saved)
    found = []
    for position in range(0, len(whole), 1 + len(whole) // 150):
        _flip(path, position, bit=position % 8)
        step, history = run.checkpoints.restore_newest()
        assert history == _history(step)
        _assert_holds(run.variables, step)
        found.append(step)
        path.write_bytes(whole)
    assert found.count(1) > 0.95 * len(found)  # the rest: white space


def test_restore_newest_all_damaged_is_none_and_touches_nothing(saved):
    for step in (1, 2):
        _flip(saved / f"step-0000000{step}" / DATA)
    run = _Run(saved)
    assert run.checkpoints.restore_newest() is None
    assert run.checkpoints.wait() is None
    _assert_holds(run.variables, 0)
    assert [line[:20] for line in run.lines] == ["checkpoint of step 2", "checkpoint of step 1"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda v: v.pop("step"), "it holds step, which is no variable of this training"),
        (lambda v: v.update(more=tf.Variable(1.0)), "variable more is not in it"),
        (
            lambda v: v.update(step=tf.Variable(1.0)),
            r"variable step is int64 \[\] in it, and float32 \[\] here",
        ),
        (
            lambda v: v.update({"order/seed": tf.Variable(tf.zeros([5, 3], tf.uint64))}),
            r"order/seed is uint64 \[3, 5\] in it, and uint64 \[5, 3\] here",
        ),
    ],
)
def test_restore_of_other_variables_names_the_first_difference(saved, change, reason):
    variables = _variables()
    change(variables)
    run = _Run(saved, variables=variables)
    with pytest.raises(TrainerError, match=reason):
        run.checkpoints.restore(2)
    assert run.checkpoints.restore_newest() is None
    assert len(run.lines) == 2
    assert all(
        _bits(variable.numpy()) == _bits(_values(0)[name])
        for name, variable in variables.items()
        if name in ("critic/down_0/kernel", "critic/down_0/bias")
    )


# Disks that refuse.


def test_save_refused_by_the_operating_system_is_reported_and_training_goes_on(tmp_path):
    variables = {"big": tf.Variable(tf.zeros([100_000])), "step": tf.Variable(0, dtype=tf.int64)}
    run = _Run(tmp_path, variables=variables)
    run.checkpoints.save(1, _history(1))
    assert run.checkpoints.wait() == 1
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        run.checkpoints.save(2, _history(2))
        assert run.checkpoints.wait() == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert run.lines == [
        "checkpoint of step 2 could not be saved (File too large); the last good one is of "
        "step 1; training goes on"
    ]
    assert _names(tmp_path) == ["step-00000001"]
    run.checkpoints.save(3, _history(3))
    assert run.checkpoints.wait() == 3
    assert _Run(tmp_path, variables=variables).checkpoints.restore(1) == _history(1)


def test_save_into_what_is_no_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    run = _Run(tmp_path / "file")
    assert run.save(5) is None
    assert len(run.lines) == 1
    assert run.lines[0].startswith("checkpoint of step 5 could not be saved (")
    assert "; there is no good one before it; training goes on" in run.lines[0]


FULL_DISK = """
import subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", sys.argv[1]], check=True)
import tensorflow as tf
from trainer.checkpoints import Checkpoints
from trainer.history import History
import os
variables = {"big": tf.Variable(tf.ones([120_000]))}
checkpoints = Checkpoints(sys.argv[1], variables, keep=1, report=print)
for step in range(1, 4):
    variables["big"].assign_add(tf.ones([120_000]))
    checkpoints.save(step, History())
    print(checkpoints.wait(), sorted(os.listdir(sys.argv[1])))
    if step == 1:  # leaves room for half of another one
        filler = open(os.path.join(sys.argv[1], "filler"), "wb")
        filler.write(bytes(300_000))
        filler.flush()
filler.close()
os.remove(filler.name)
checkpoints.save(4, History())
print(checkpoints.wait(), sorted(os.listdir(sys.argv[1])))
variables["big"].assign(tf.zeros([120_000]))
print(checkpoints.restore_newest()[0], set(variables["big"].numpy()) == {4.0})
"""


def _may_mount():
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _may_mount(), reason="this machine does not let users mount a small disk")
def test_save_on_a_full_disk_is_reported_and_succeeds_when_there_is_room(tmp_path):
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    refused = (
        "checkpoint of step {} could not be saved (No space left on device); the last good one "
        "is of step 1; training goes on"
    )
    assert done.stdout.splitlines() == [
        "1 ['step-00000001']",
        refused.format(2),
        "1 ['filler', 'step-00000001']",
        refused.format(3),
        "1 ['filler', 'step-00000001']",
        "4 ['step-00000004']",
        "4 True",
    ], done.stderr


# Kills.


@pytest.fixture
def moments(tmp_path, monkeypatch):
    """Copies a folder before each change that is made to it: what a kill would leave there."""

    def watch(folder):
        copies, rmtree = [], tf.io.gfile.rmtree

        def copy():
            copies.append(tmp_path / f"moment-{len(copies):03d}")
            return shutil.copytree(folder, copies[-1])

        def before(change):
            def changed(*args, **kwargs):
                copy()
                if change is rmtree:  # and in the middle of it
                    hurt = copy() / Path(args[0]).relative_to(folder) / DATA
                    hurt.unlink(missing_ok=True)
                return change(*args, **kwargs)

            return changed

        for module, names in (
            (tf.io.gfile, ("makedirs", "rename", "remove", "rmtree", "GFile")),
            (tf.raw_ops, ("SaveV2",)),
            (os, ("fsync",)),
        ):
            for name in names:
                monkeypatch.setattr(module, name, before(getattr(module, name)))
        return copies

    yield watch
    monkeypatch.undo()


def _outcomes(copies):
    """What a new process finds in each copy: step, history, and the seed of the values."""
    outcomes = []
    for copy in copies:
        run = _Run(copy, keep=1)
        step, history = run.checkpoints.restore_newest()
        seed = int(run.variables["order/seed"].numpy()[0, 0])
        assert run.lines == []
        outcomes.append((step, history, seed))
        run.save(9)  # and it goes on, and clears up
        assert run.lines == []
        assert set(_names(copy)) - {"step-00000001"} == {"step-00000009"}
    return outcomes


def _seed(step):
    return int(_values(step)["order/seed"][0, 0])


def _changes_once(outcomes, before, after):
    assert [outcome for outcome, _ in itertools.groupby(outcomes)] == [before, after]


def test_roll_back_killed_at_any_moment_is_before_or_after(saved, moments, monkeypatch):
    run = _Run(saved, keep=9)
    run.checkpoints.restore_newest()
    for step in (3, 4, 5):
        run.save(step)
    after = _history(2).rolled_back(Rollback(step=5, to_step=2, fault="exploded"))
    copies = moments(saved)
    run.checkpoints.roll_back(2, after)
    monkeypatch.undo()
    copies.append(saved)
    _assert_holds(run.variables, 2)
    assert run.checkpoints.wait() == 2
    assert run.checkpoints.steps() == [1, 2]
    assert run.lines == []
    assert len(copies) > 10
    _changes_once(_outcomes(copies), (5, _history(5), _seed(5)), (2, after, _seed(2)))


def test_roll_back_to_a_damaged_one_changes_nothing(saved):
    run = _Run(saved)
    run.save(3)
    _flip(saved / "step-00000002" / DATA)
    before = {path: path.read_bytes() for path in saved.rglob("*.*")}
    with pytest.raises(TrainerError, match=r"step 2 in .* cannot be restored.*there: 1, 2, 3$"):
        run.checkpoints.roll_back(2, History())
    assert {path: path.read_bytes() for path in saved.rglob("*.*")} == before
    _assert_holds(run.variables, 3)


def test_roll_back_that_cannot_write_is_one_line_and_changes_nothing(saved):
    (saved / "step-00000001" / "history.json.new").mkdir()
    run = _Run(saved)
    run.checkpoints.restore_newest()
    with pytest.raises(TrainerError, match=r"cannot go back .* step 1 \(.+\); .* be writable$"):
        run.checkpoints.roll_back(1, History())
    _assert_holds(run.variables, 2)
    assert run.checkpoints.steps() == [1, 2]
    assert run.checkpoints.restore(1) == _history(1)


def test_roll_back_waits_for_a_write_and_deletes_it(saved):
    run = _Run(saved)
    run.checkpoints.save(3, _history(3))
    run.checkpoints.roll_back(1, _history(1, best=0))
    assert _names(saved) == ["step-00000001"]
    assert _Run(saved).checkpoints.restore_newest() == (1, _history(1, best=0))


def test_save_killed_at_any_moment_leaves_the_old_or_the_new_one(saved, moments, monkeypatch):
    run = _Run(saved, keep=1)
    copies = moments(saved)
    run.save(5)
    monkeypatch.undo()
    copies.append(saved)
    assert len(copies) > 10
    _changes_once(_outcomes(copies), (2, _history(2), _seed(2)), (5, _history(5), _seed(5)))


def test_save_of_the_same_step_killed_at_any_moment_leaves_one(saved, moments, monkeypatch):
    run = _Run(saved, keep=1)
    run.checkpoints.restore_newest()
    copies = moments(saved)
    _set(run.variables, 7)
    run.checkpoints.save(2, _history(2, best=2))
    run.checkpoints.wait()
    monkeypatch.undo()
    copies.append(saved)
    assert any("step-00000002" not in _names(copy) for copy in copies)  # the very moment
    _changes_once(_outcomes(copies), (2, _history(2), _seed(2)), (2, _history(2, best=2), _seed(7)))


KILLED = """
import os, random, signal, sys, time
import tensorflow as tf
from trainer.checkpoints import Checkpoints
from trainer.history import History, Validation

def history(step):
    return History(validations=(Validation(step=step, distance=1 / step, deviation=1.0),))

def train(folder, out):
    say = lambda *words: os.write(out, (" ".join(map(str, words)) + "\\n").encode())
    big, small = tf.Variable(tf.zeros([1_000_000])), tf.Variable(0, dtype=tf.int64)
    checkpoints = Checkpoints(folder, {"big": big, "small": small}, keep=2, report=say)
    step, past = checkpoints.restore_newest() or (0, None)
    whole = small.numpy() == step and (big.numpy() == step).all()
    say("restored", step, whole and (step == 0 or past == history(step)))
    while True:
        step += 1
        big.assign_add(tf.ones([1_000_000]))
        small.assign(step)
        checkpoints.save(step, history(step))
        say("saved", checkpoints.wait())

for _ in range(int(sys.argv[2])):
    reading, writing = os.pipe()
    child = os.fork()  # before TensorFlow has started any thread
    if not child:
        train(sys.argv[1], writing)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            print(line, end="")
            if line.startswith("saved"):
                break
        time.sleep(random.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(lines.read(), end="")
"""


def test_save_killed_by_the_system_always_leaves_a_whole_newest(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), "8"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines].count("restored") == 8, done.stderr
    saved = 0
    for what, step, *whole in lines:
        if what == "restored":
            assert whole == ["True"]
            assert saved <= int(step) <= saved + 1  # a write may be done and not yet told
        else:
            assert what == "saved", done.stdout
        saved = int(step)
    run = _Run(
        tmp_path,
        variables={
            "big": tf.Variable(tf.zeros([1_000_000])),
            "small": tf.Variable(0, dtype=tf.int64),
        },
    )
    assert run.checkpoints.restore_newest()[0] in (saved, saved + 1)
    assert run.lines == []


ENDS = """
import sys
import tensorflow as tf
from trainer.checkpoints import Checkpoints
from trainer.history import History
variables = {"big": tf.Variable(tf.ones([10_000_000]))}
Checkpoints(sys.argv[1], variables, keep=2, report=print).save(1, History())
"""


def test_save_is_finished_before_the_process_ends(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ENDS, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    run = _Run(tmp_path, variables={"big": tf.Variable(tf.zeros([10_000_000]))})
    assert run.checkpoints.restore_newest() == (1, History())
    assert run.variables["big"].numpy().all()
