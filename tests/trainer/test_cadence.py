"""When the host gets to see the device loop."""

import itertools

import pytest

from trainer import cadence
from trainer.options import TrainingOptions


@pytest.mark.parametrize("start", [0, 7])
def test_calls_end_at_every_event_and_are_never_too_long(start):
    options = TrainingOptions(
        steps=53,
        steps_per_call=10,
        log_every_steps=15,
        sample_every_steps=100,
        checkpoint_every_steps=20,
        validate_every=26,
    )
    calls = list(cadence.calls(start, options))
    assert calls[0][0] == start
    assert calls[-1][1] == 53
    assert all(0 < end - first <= 10 for first, end in calls)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(calls))
    ends = {end for _, end in calls}
    assert {15, 20, 26, 30, 40, 45, 52} <= ends
    due = {end for end in ends if cadence.is_due(end, 15, options)}
    assert due == {15, 30, 45, 53}
