"""Every command and snippet of the README, run in its order in an empty folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets

pytestmark = pytest.mark.end_to_end

README = Path(__file__).resolve().parents[2] / "README.md"
#: What a line of a command begins with, and the module it runs.
COMMANDS = {".venv/bin/tfx-wgan ": "pipeline.cli", ".venv/bin/python -m trainer ": "trainer"}


def _blocks(language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def _commands(module="pipeline.cli"):
    lines = "\n".join(_blocks("")).splitlines()
    (start,) = (start for start, name in COMMANDS.items() if name == module)
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder but for the README's own `my.yaml` and images where it says."""
    folder = tmp_path_factory.mktemp("readme")
    (yaml,) = _blocks("yaml")
    (folder / "my.yaml").write_text(yaml)
    images = datasets.load_digits().images
    for index in range(100):
        path = folder / "path" / "to" / "images" / str(index % 2) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.round(images[index] * 15.9).astype(np.uint8)).save(path)
    (folder / "arrays").mkdir()
    large = np.round(images.repeat(2, axis=1).repeat(2, axis=2) * 15.9).astype(np.uint8)
    np.savez(folder / "arrays" / "train.npz", images=large[:200], labels=np.arange(200) % 10)
    return folder


def _call(folder, environment, settings, command, module="pipeline.cli"):
    extra = [part for setting in settings for part in ("--set", setting)]
    words = [*shlex.split(command), *(extra if command.startswith(("run ", "--data ")) else [])]
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_does_what_it_says(folder, environment, tiny):
    # What `make demo` does, with a smaller model.
    _call(folder, environment, (*tiny, "training.steps=20"), "run digits")
    commands = _commands()
    assert "run my.yaml" in commands
    assert {command.split()[0] for command in commands} == {
        "run",
        "sample",
        "report",
        "extractor",
        "config",
        "doctor",
    }
    shown = {
        command: _call(folder, environment, (*tiny, "training.steps=20"), command)
        for command in commands
    }
    assert (folder / "grid.png").exists()
    assert (folder / "runs" / "short" / "serving").exists()
    assert (folder / "runs" / "mine" / "serving").exists()
    assert shown["report runs/digits"].strip().endswith("report.html")
    assert "served" in shown["report runs/digits --history"]
    assert "sha256: " in shown["extractor fit digits"]

    (alone,) = _commands("trainer")
    short = [setting for setting in tiny if setting.startswith(("model.", "training."))]
    _call(folder, environment, (*short, "training.steps=10"), alone, "trainer")
    assert (folder / "runs" / "alone" / "model" / "saved_model.pb").exists()

    (snippet,) = _blocks("python")
    (version,) = (folder / "runs" / "digits" / "serving").iterdir()
    code = snippet.replace("<version>", version.name) + "\nprint(drawn['image'].shape)"
    drawn = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert drawn.stdout.strip() == "(16, 16, 16, 1)", drawn.stderr
