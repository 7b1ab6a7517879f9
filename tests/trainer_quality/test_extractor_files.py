"""Hashes of extractors' files, and what is refused before anything is loaded."""

import hashlib
import subprocess
import sys

import pytest

from components.served_model.fingerprint import model_fingerprint
from trainer.options import ExtractorOptions
from trainer.quality.extractors import ExtractorError, create, files
from trainer.quality.extractors.random import RandomExtractor


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "variables" / "data").write_bytes(b"numbers" * 400_000)
    return tmp_path


def test_sha256_folder_is_that_of_paths_and_contents(folder):
    expected = hashlib.sha256(
        b"saved_model.pb\0"
        + hashlib.sha256(b"graph").digest()
        + b"variables/data\0"
        + hashlib.sha256(b"numbers" * 400_000).digest()
    ).hexdigest()
    assert files.sha256(str(folder)) == expected == model_fingerprint(str(folder))


def test_sha256_elsewhere_is_the_same(folder):
    assert files.sha256(f"file://{folder}") == files.sha256(str(folder))


@pytest.mark.parametrize("change", ["content", "name", "new"])
def test_sha256_folder_that_changed_is_another(folder, change):
    before = files.sha256(str(folder))
    if change == "content":
        (folder / "variables" / "data").write_bytes(b"other")
    elif change == "name":
        (folder / "variables" / "data").rename(folder / "variables" / "date")
    else:
        (folder / "empty").touch()
    assert files.sha256(str(folder)) != before


def test_sha256_file_is_what_sha256sum_says(folder):
    expected = hashlib.sha256(b"graph").hexdigest()
    assert files.sha256(str(folder / "saved_model.pb")) == expected


def test_local_sha256_random_is_the_extractors_own():
    assert files.local_sha256(ExtractorOptions()) == RandomExtractor.sha256


@pytest.mark.parametrize(
    "options",
    [
        ExtractorOptions(name="gs://bucket/extractor"),
        ExtractorOptions(name="inception"),
        ExtractorOptions(name="inception", weights="https://host/weights.h5"),
    ],
)
def test_local_sha256_not_on_this_machine_is_none(options):
    assert files.local_sha256(options) is None


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"name": "incepton"}, "extractor.name: got 'incepton', which is no folder; allowed: rand"),
        ({"name": "/"}, "extractor.name: got '/', which holds no saved_model.pb; allowed: random"),
        ({"name": "inception", "weights": "no.h5"}, "weights: got 'no.h5', which is no file; all"),
        ({"name": "inception", "weights": "/"}, "weights: got '/', which holds no SavedModel; al"),
    ],
)
@pytest.mark.parametrize("refuse", [files.local_sha256, create])
def test_missing_files_are_refused_in_one_line(options, line, refuse):
    with pytest.raises(ExtractorError) as caught:
        refuse(ExtractorOptions(**options))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_create_wrong_pin_says_what_was_found_and_asked():
    with pytest.raises(ExtractorError) as caught:
        create(ExtractorOptions(sha256="0" * 64))
    assert str(caught.value) == (
        f"evaluation.extractor.sha256: random has {RandomExtractor.sha256}, but {'0' * 64} is "
        "asked for; bring back the files of that hash, or change the key"
    )


def test_create_right_pin_is_accepted():
    assert create(ExtractorOptions(sha256=RandomExtractor.sha256)).name == "random"


def test_local_sha256_needs_nothing_heavy(folder):
    code = (
        "import sys\n"
        "from trainer.options import ExtractorOptions\n"
        "from trainer.quality.extractors import files\n"
        f"print(files.local_sha256(ExtractorOptions(name={str(folder)!r})))\n"
        "print([name for name in ('tensorflow', 'tf_keras', 'numpy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [files.sha256(str(folder)), "[]"]
