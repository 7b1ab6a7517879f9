"""Which code a node's cache key depends on, and that it follows every change of that code."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.provenance import source_hash, sources

CHECKOUT = Path(__file__).resolve().parents[2]
TRAINER = ("trainer.entrypoint", "trainer.process")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of our packages that may be changed."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("components", "trainer"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, folder / name, ignore=ignore)
    return folder


@pytest.fixture(scope="module")
def hash_in(copy):
    """Hashes names in a process that has only the copy; checks that nothing heavy is imported."""
    code = (
        "import json, sys; from components.provenance import source_hash\n"
        "found = source_hash(*json.loads(sys.argv[1]))\n"
        "assert not {'tfx', 'tensorflow', 'pydantic'} & set(sys.modules)\n"
        "print(found)"
    )

    def run(*names):
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps(names)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    return run


@pytest.mark.parametrize(
    ("names", "inside", "outside"),
    [
        (
            TRAINER,
            {"trainer/step.py", "trainer/losses.py", "trainer/export.py", "trainer/process.py"},
            {"trainer/sampling.py", "trainer/__main__.py"},
        ),
        (
            ("components.gan_evaluator",),
            {
                "components/gan_evaluator/metrics.py",  # named in EvalConfig only
                "components/served_model/fingerprint.py",
                "trainer/quality/frechet.py",
                "trainer/quality/extractors/random.py",
            },
            {"trainer/step.py", "components/served_model/executor.py"},
        ),
        (
            ("components.data_gate",),
            {"components/data_gate/rules.py", "components/pinned_schema_gen/schema.py"},
            {"trainer/options.py"},
        ),
        (
            ("components.serving_validator",),
            {"components/serving_validator/checks.py"},  # a script, imported by nobody
            {"trainer/export.py"},
        ),
        (("components.run_report",), {"components/run_report/template.html"}, set()),
    ],
)
def test_sources_are_the_package_and_what_it_imports(names, inside, outside):
    found = set(sources(*names))
    assert inside <= found
    assert not outside & found


@pytest.mark.parametrize(
    ("names", "path", "changes"),
    [
        (TRAINER, "trainer/losses.py", True),
        (TRAINER, "trainer/sampling.py", False),
        (("components.gan_evaluator",), "trainer/quality/moments.py", True),
        (("components.run_report",), "components/run_report/template.html", True),
    ],
)
def test_source_hash_changes_with_that_code_only(copy, hash_in, names, path, changes):
    assert hash_in(*names) == source_hash(*names), "the same wherever it is installed"
    file = copy / path
    before = file.read_text()
    file.write_text(before + "\n# changed\n")
    assert (hash_in(*names) != source_hash(*names)) == changes
    file.write_text(before)


@pytest.mark.parametrize("name", ["components.nothing", "tfx", "trainer.step.State"])
def test_source_hash_of_what_is_no_module_of_ours_is_refused(name):
    with pytest.raises(ModuleNotFoundError, match="no source of ours found"):
        source_hash(name)
