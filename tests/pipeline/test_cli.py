"""The command line up to the point where a command does its work."""

import json
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from pipeline import cli, config


def _call(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["sample", "--help"],
        ["report", "--help"],
        ["config", "--help"],
        ["config", "show", "--help"],
        ["doctor", "--help"],
    ],
)
def test_help_of_every_command_teaches(arguments):
    result = _call(*arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert len(result.output.splitlines()) > 4


def test_cli_import_brings_nothing_heavy():
    heavy = ["tensorflow", "tfx", "apache_beam", "numpy", "google.cloud.aiplatform"]
    code = (
        "import sys, pipeline.cli, components.image_example_gen.sources; "
        "import pipeline.lock, pipeline.run, pipeline.summary; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_config_show_prints_valid_yaml_with_overrides():
    result = _call("config", "show", "digits", "--set", "training.steps=7")
    assert yaml.safe_load(result.output)["training"]["steps"] == 7


def test_config_show_without_config_prints_the_defaults():
    shown = yaml.safe_load(_call("config", "show").output)
    assert shown["data"]["image_size"] == config.Config().data.image_size


def test_config_schema_prints_json():
    assert "training" in json.loads(_call("config", "schema").output)["properties"]


def test_config_presets_lists_all():
    output = _call("config", "presets").output
    names = ("digits", "mnist", "fashion_mnist", "cifar10_resnet", "celeba64")
    assert all(name in output for name in names)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--set", "training.stepps=1"], "tfx-wgan: training.stepps: unknown key"),
        (["--set", "training.steps=x"], "tfx-wgan: training.steps: got 'x'"),
        (["--set", "data.image_size=20"], "tfx-wgan: data.image_size: got 20"),
        (["--set", "training.replicas=7"], "tfx-wgan: training.global_batch_size: got"),
        (["--set", "data.input=/does/not/exist"], "tfx-wgan: data.input"),
        (["--set", "training.warm_start=/none"], "tfx-wgan: training.warm_start: got '/none'"),
        (["--set", "data.schema_file=/does/not/exist"], "tfx-wgan: data.schema_file /does/not"),
    ],
)
def test_run_wrong_configuration_exits_2_with_one_line_and_writes_nothing(
    tmp_path, arguments, line
):
    root = tmp_path / "root"
    result = _call("run", "digits", "--root", root, *arguments)
    assert result.exit_code == 2
    assert result.output.startswith(line)
    assert len(result.output.splitlines()) == 1
    assert not root.exists()


def test_run_unknown_config_exits_2():
    result = _call("run", "no-such-preset")
    assert result.exit_code == 2
    assert "no such file or preset" in result.output


def test_run_unknown_option_exits_2():
    assert _call("run", "digits", "--nonsense").exit_code == 2


def test_run_busy_root_exits_1_with_one_line(tmp_path):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from pipeline import lock\n"
            "with lock.held(pathlib.Path(sys.argv[1])):\n"
            "    print('held', flush=True); sys.stdin.read()",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        result = _call("run", "digits", "--root", tmp_path)
    finally:
        holder.communicate("")
    assert result.exit_code == 1
    assert f"is in use by another run (process {holder.pid})" in result.output
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_report_of_a_root_without_runs_exits_2(tmp_path):
    result = _call("report", tmp_path)
    assert result.exit_code == 2
    assert "no run there that ended" in result.output


@pytest.mark.parametrize("text", ["{half", "[]", "{}", '{"run_id": "a"}'])
def test_report_of_a_run_whose_summary_is_broken_exits_1_with_one_line(tmp_path, text):
    broken = tmp_path / "runs" / "20260101-000000" / "summary.json"
    broken.parent.mkdir(parents=True)
    broken.write_text(text)
    result = _call("report", tmp_path)
    assert result.exit_code == 1
    assert result.output.startswith(f"tfx-wgan: {broken}: not a summary")
    assert len(result.output.splitlines()) == 1


def test_sample_of_a_folder_without_model_exits_2(tmp_path):
    result = _call("sample", tmp_path, "--output", tmp_path / "grid.png")
    assert result.exit_code == 2
    assert "no saved_model.pb there" in result.output
    assert not (tmp_path / "grid.png").exists()


def test_run_root_that_cannot_be_made_exits_1_with_one_line(tmp_path):
    (tmp_path / "file").touch()
    result = _call("run", "digits", "--root", tmp_path / "file" / "root")
    assert result.exit_code == 1
    assert "cannot be used as root" in result.output
    assert len(result.output.splitlines()) == 1
