"""The combiner behind the distances: however Beam splits the examples, the same moments."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow_model_analysis.metrics import metric_types

from components.gan_evaluator.metrics import _MomentsFn
from trainer.quality.moments import Moments

KEY = metric_types.MetricKey(name="_moments")


@pytest.mark.parametrize("splits", [[], [1], [0, 300, 300], [255, 256, 257, 900]])
def test_moments_combiner_split_anyhow_equals_all_at_once(splits):
    vectors = np.random.default_rng(0).standard_normal((1000, 5)).astype(np.float32)
    combiner = _MomentsFn(KEY, ("features", "real"))
    accumulators = []
    for part in np.split(vectors, splits):
        accumulator = combiner.create_accumulator()
        for vector in part:
            accumulator = combiner.add_input(accumulator, {"features": {"real": vector}})
        accumulators.append(combiner.compact(accumulator))
    found = combiner.extract_output(combiner.merge_accumulators(accumulators))[KEY]
    whole = Moments.of(vectors)
    assert found.count == whole.count
    np.testing.assert_allclose(found.total, whole.total, rtol=1e-10)
    np.testing.assert_allclose(found.outer, whole.outer, rtol=1e-10)


def test_moments_combiner_of_nothing_is_empty():
    combiner = _MomentsFn(KEY, ("predictions",))
    merged = combiner.merge_accumulators([combiner.create_accumulator()])
    assert combiner.extract_output(merged)[KEY].count == 0
