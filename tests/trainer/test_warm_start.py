"""Weights to begin with, from real exports and real checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from trainer import export, warm_start
from trainer.checkpoints import Checkpoints
from trainer.errors import TrainerError
from trainer.history import History
from trainer.options import ModelOptions, TrainingOptions
from trainer.state import State

MODEL = ModelOptions(latent_dim=8, generator_channels=4, critic_channels=4)
NETWORKS = ("generator", "ema_generator", "critic")


def _state(model=MODEL, *, seed=0, classes=2, precision="float32", noise=None):
    training = TrainingOptions(seed=seed, precision=precision)
    state = State(model, training, image_size=16, channels=1, classes=classes)
    if noise is not None:
        random = np.random.default_rng(noise)
        for variable in state.variables().values():
            if variable.dtype.is_floating:
                variable.assign(random.normal(size=variable.shape))
    return state


def _values(state, part):
    return [variable.numpy() for variable in getattr(state, part).variables]


def _assert_equal(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def trained():
    return _state(noise=1)


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("served") / "7")
    export.save(trained, MODEL, path, class_names=("left", "right"))
    return path


@pytest.fixture(scope="module")
def checkpoint(trained, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("checkpoints")
    checkpoints = Checkpoints(str(folder), trained.variables(), keep=1, report=print)
    checkpoints.save(5, History())
    checkpoints.close()
    return str(folder / "step-00000005")


def test_load_export_gives_both_generators_the_served_average_and_the_critic_its_own(
    trained, exported
):
    state = _state(seed=3)
    optimizer = [v.numpy() for v in state.critic_optimizer.variables]
    warm_start.load(exported).assign_to(state)
    _assert_equal(_values(state, "generator"), _values(trained, "ema_generator"))
    _assert_equal(_values(state, "ema_generator"), _values(trained, "ema_generator"))
    _assert_equal(_values(state, "critic"), _values(trained, "critic"))
    _assert_equal([v.numpy() for v in state.critic_optimizer.variables], optimizer)
    assert state.step.numpy() == 0


def test_load_checkpoint_gives_every_network_its_own(trained, checkpoint):
    state = _state(seed=3)
    warm_start.load(checkpoint).assign_to(state)
    for part in NETWORKS:
        _assert_equal(_values(state, part), _values(trained, part))
    assert state.step.numpy() == 0


def test_assign_to_replicated_state_reaches_every_replica(trained, exported):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        state = _state(seed=3)
    warm_start.load(exported).assign_to(state)
    for variable, expected in zip(state.critic.variables, _values(trained, "critic"), strict=True):
        for copy in strategy.experimental_local_results(variable):
            np.testing.assert_array_equal(copy.numpy(), expected)


def test_assign_to_another_precision_casts(trained, exported):
    state = _state(seed=3, precision="float64")
    warm_start.load(exported).assign_to(state)
    assert state.critic.variables[0].dtype == tf.float64
    _assert_equal(_values(state, "critic"), _values(trained, "critic"))


def test_fingerprint_is_of_the_weights_and_not_of_the_place(exported, checkpoint, tmp_path):
    copy = shutil.copytree(exported, tmp_path / "copy")
    found = warm_start.load(exported).fingerprint
    assert warm_start.load(str(copy)).fingerprint == found
    other = str(tmp_path / "other")
    export.save(_state(noise=2), MODEL, other)
    others = {warm_start.load(other).fingerprint, warm_start.load(checkpoint).fingerprint}
    assert len(others | {found}) == 3


@pytest.mark.parametrize(
    ("changes", "classes", "named"),
    [
        ({"generator_channels": 8}, 2, r"generator: .* model\.generator_channels"),
        ({"latent_dim": 4}, 2, r"generator: .* model\.latent_dim"),
        ({"critic_channels": 8}, 2, r"critic: .* model\.critic_channels"),
        ({"generator_norm": "none"}, 2, r"generator: .* the norms"),
        ({}, 0, r"generator: .* number of labels"),
        ({}, 3, r"generator: .* number of labels"),
    ],
)
def test_assign_to_other_networks_is_one_line_and_changes_nothing(
    exported, changes, classes, named
):
    state = _state(MODEL.model_copy(update=changes), classes=classes)
    before = {part: _values(state, part) for part in NETWORKS}
    with pytest.raises(TrainerError, match=rf"^training\.warm_start: .*{named}") as error:
        warm_start.load(exported).assign_to(state)
    assert "\n" not in str(error.value)
    for part in NETWORKS:
        _assert_equal(_values(state, part), before[part])


def _nothing(path: Path) -> None:
    pass


def _foreign_export(path: Path) -> None:
    module = tf.Module()
    module.weights = [tf.Variable(1.0)]
    tf.saved_model.save(module, str(path))


def _broken_export(path: Path) -> None:
    path.mkdir()
    (path / "saved_model.pb").write_bytes(b"?")


@pytest.mark.parametrize("make", [_nothing, _foreign_export, _broken_export])
def test_load_what_holds_no_weights_of_ours_is_one_line(make, tmp_path):
    make(tmp_path / "given")
    with pytest.raises(
        TrainerError, match=r"^training\.warm_start: .*; allowed: a SavedModel"
    ) as e:
        warm_start.load(str(tmp_path / "given"))
    assert "\n" not in str(e.value)
