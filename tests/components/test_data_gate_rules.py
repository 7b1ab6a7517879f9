"""What makes data unfit for training."""

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.data_gate import rules


def _anomalies(**descriptions):
    found = anomalies_pb2.Anomalies()
    for feature, description in descriptions.items():
        found.anomaly_info[feature].description = description
        found.anomaly_info[feature].severity = anomalies_pb2.AnomalyInfo.ERROR
    return found


def _problems(**changes):
    given = {
        "examples": {"train": 90, "eval": 10},
        "anomalies": {"train": _anomalies(), "eval": _anomalies()},
        "quarantined": 0,
        "max_quarantined_fraction": 0.05,
    }
    return rules.problems(**{**given, **changes})


def test_problems_of_clean_data_are_none():
    assert _problems() == []


@pytest.mark.parametrize(
    ("quarantined", "refused"),
    [(0, False), (5, False), (6, True)],  # 5 of 105 is 4.8%; 6 of 106 is 5.7%
)
def test_problems_quarantine_counts_against_all_files(quarantined, refused):
    found = _problems(quarantined=quarantined)
    assert bool(found) == refused
    if refused:
        assert found[0].startswith("6 of 106 files (5.7%) cannot be decoded")


def test_problems_quarantine_at_the_bound_is_accepted():
    assert _problems(quarantined=100, max_quarantined_fraction=0.5) == []


def test_problems_labels_that_the_model_needs_and_the_data_lacks_are_named():
    assert _problems(lacks_labels=True) == [
        "model.conditional is true, but the images have no labels; set it to auto"
    ]


def test_problems_empty_split_is_named():
    assert _problems(examples={"train": 5, "eval": 0}) == ["split eval is empty"]


def test_problems_no_examples_at_all_are_one():
    assert _problems(examples={}, anomalies={}) == ["there are no examples"]


def test_problems_split_that_was_not_validated_is_named():
    found = _problems(examples={"train": 5, "eval": 5}, anomalies={"train": _anomalies()})
    assert found == ["split eval was not validated"]


def test_problems_anomalies_name_split_and_feature():
    found = _problems(
        anomalies={
            "train": _anomalies(),
            "eval": _anomalies(format="Unexpected string values: tiff."),
        }
    )
    assert found == ["eval: format: Unexpected string values: tiff"]


def test_problems_warnings_do_not_stop():
    warned = _anomalies(label="odd")
    warned.anomaly_info["label"].severity = anomalies_pb2.AnomalyInfo.WARNING
    assert _problems(anomalies={"train": warned, "eval": _anomalies()}) == []


def test_refuse_names_every_problem_in_one_line():
    with pytest.raises(rules.DataRefused, match=r"^the data was refused: one; two$"):
        rules.refuse(["one", "two"])
    rules.refuse([])
