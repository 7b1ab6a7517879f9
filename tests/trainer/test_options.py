"""Options that do not go together are refused, with the key and what is allowed."""

import pytest

from trainer.options import ModelOptions, TrainingJob, TrainingOptions, check_together


@pytest.mark.parametrize(
    ("given", "pieces"),
    [
        ({"replicas": 3}, 3),
        ({"accumulation_steps": 3}, 3),
        ({"replicas": 4, "accumulation_steps": 32}, 128),
    ],
)
def test_batch_that_pieces_do_not_divide_is_refused(given, pieces):
    with pytest.raises(ValueError, match=rf"global_batch_size: got 64.* a multiple of {pieces} "):
        TrainingOptions(global_batch_size=64, **given)
    assert TrainingOptions(global_batch_size=pieces * 2, **given)


def test_one_device_with_several_replicas_is_refused():
    with pytest.raises(ValueError, match=r"training\.replicas: got 2 with training\.strategy=one"):
        TrainingOptions(strategy="one", replicas=2)


@pytest.mark.parametrize("strategy", ["tpu", "multi_worker"])
def test_replicas_where_the_devices_decide_are_refused(strategy):
    with pytest.raises(ValueError, match=rf"got 2 with training\.strategy={strategy}.*null"):
        TrainingOptions(strategy=strategy, replicas=2)
    assert TrainingOptions(strategy=strategy)


def test_batch_normalisation_of_pieces_is_refused(job):
    model = ModelOptions(generator_norm="batch")
    in_pieces = TrainingOptions(accumulation_steps=2)
    with pytest.raises(ValueError, match=r"training\.accumulation_steps: got 2 with model\."):
        check_together(model, in_pieces)
    check_together(model, TrainingOptions())
    check_together(ModelOptions(), in_pieces)
    wrong = job.model_dump() | {"model": model, "training": in_pieces}
    with pytest.raises(ValueError, match="whose statistics are those of one whole batch"):
        TrainingJob.model_validate(wrong)


@pytest.mark.parametrize("key", ["max_gradient_norm", "max_gradient_penalty"])
def test_bounds_that_are_no_bounds_are_refused(key):
    for value in (0.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=key):
            TrainingOptions.model_validate({"guard": {key: value}})
