"""The newest span, as TFX itself would find it."""

import pytest
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2

from components.image_example_gen import spans
from components.image_example_gen.listing import SourceError


@pytest.mark.parametrize(
    ("pattern", "folders"),
    [
        ("span-{SPAN}", ["span-1", "span-2", "span-10"]),
        ("span-{SPAN:3}", ["span-001", "span-002", "span-010"]),
        ("{SPAN}/v{VERSION}", ["1/v7", "2/v1", "2/v3"]),
        ("{SPAN}/images", ["1/images", "2/images"]),
        ("{YYYY}-{MM}-{DD}", ["2024-12-31", "2025-01-01", "1999-06-01"]),
        ("day{YYYY}{MM}{DD}/{VERSION:2}", ["day20250101/01", "day20250101/12"]),
    ],
)
def test_resolve_agrees_with_tfx(tmp_path, pattern, folders):
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    split = example_gen_pb2.Input.Split(name="all", pattern=pattern)
    _, span, version = utils.calculate_splits_fingerprint_span_and_version(str(tmp_path), [split])
    resolved = spans.resolve(f"{tmp_path}/{pattern}")
    assert resolved == (f"{tmp_path}/{split.pattern}", span, version)


def test_resolve_passes_over_folders_without_a_number(tmp_path):
    for name in ("span-3", "span-new", "other"):
        (tmp_path / name).mkdir()
    assert spans.resolve(f"{tmp_path}/span-{{SPAN}}").span == 3


def test_resolve_without_placeholder_is_the_path_itself():
    assert spans.resolve("/some/[folder]") == ("/some/[folder]", 0, None)


def test_resolve_takes_the_rest_of_the_path_literally(tmp_path):
    (tmp_path / "a[1]" / "4").mkdir(parents=True)
    assert spans.resolve(f"{tmp_path}/a[1]/{{SPAN}}").span == 4


@pytest.mark.parametrize(
    "pattern", ["{SPAN}{SPAN}", "{VERSION}", "{YYYY}-{MM}", "{SPAN}{YYYY}{MM}{DD}"]
)
def test_resolve_impossible_placeholders_are_refused(tmp_path, pattern):
    with pytest.raises(SourceError, match="wrong placeholders"):
        spans.resolve(f"{tmp_path}/{pattern}")


def test_resolve_no_match_says_what_was_looked_for(tmp_path):
    with pytest.raises(SourceError, match=r"nothing matches; looked for .*/span-\*"):
        spans.resolve(f"{tmp_path}/span-{{SPAN}}")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/span-{SPAN}/images", ("/data", "span-{SPAN}/images")),
        ("/{SPAN}", ("/", "{SPAN}")),
        ("/data", ("/data", "*")),
        ("digits", ("digits", "*")),
    ],
)
def test_split_pattern_cuts_before_the_first_placeholder(path, expected):
    assert spans.split_pattern(path) == expected
