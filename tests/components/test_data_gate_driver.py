"""When DataGate may not come from the cache."""

from components.data_gate.driver import Driver


def _pin(path):
    return Driver(None).parameters({}, {"pin_path": str(path)})["pin"]


def test_parameters_are_the_same_before_and_after_the_schema_is_pinned(tmp_path):
    path = tmp_path / "schema" / "schema.pbtxt"
    before = _pin(path)
    path.parent.mkdir()
    path.touch()
    assert _pin(path) == before == ""


def test_parameters_are_new_each_time_when_the_pinned_schema_was_deleted(tmp_path):
    path = tmp_path / "schema" / "schema.pbtxt"
    path.parent.mkdir()
    assert len({_pin(path), _pin(path), ""}) == 3


def test_parameters_of_a_given_schema_never_change():
    assert Driver(None).parameters({}, {}) == {"pin": ""}
