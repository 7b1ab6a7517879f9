"""Configuration: what is accepted, what is refused, and in which words."""

import json

import pydantic
import pytest
import yaml

from pipeline import config, describe
from trainer import __main__ as command
from trainer.options import IMAGE_SIZES, Options, TrainingJob, TrainingOptions
from trainer.quality import catalogue

NOTHING_ASKED = json.dumps(
    {
        name: dict.fromkeys(("bound", "tolerance", "class_bound", "class_tolerance"))
        for name in catalogue.BY_NAME
    }
)


def test_load_preset_name_gives_its_values_over_the_defaults():
    loaded = config.load("digits")
    assert loaded.data.input == "digits"
    assert loaded.training.penalty.weight == config.Config().training.penalty.weight


def test_load_file_overrides_and_root_apply_in_that_order(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("training:\n  steps: 5\nruntime:\n  root: there\n")
    loaded = config.load(str(path), ["training.steps=7", "training.seed=3"], root=str(tmp_path))
    assert (loaded.training.steps, loaded.training.seed) == (7, 3)
    assert loaded.root == tmp_path


@pytest.mark.parametrize("preset", config.presets())
def test_every_preset_is_valid_and_says_what_it_is(preset):
    assert config.load(preset).root.is_absolute()
    assert len(config.presets()[preset]) > 10


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("training.stepps=3", "training.stepps: unknown key; allowed: steps, "),
        ("trainning=3", "trainning: unknown key; allowed: data, model, training"),
        ("training.penalty.wait=1", "training.penalty.wait: unknown key; allowed: kind, weight"),
        ("training.steps=abc", "training.steps: got 'abc'; allowed: a whole number >= 1"),
        ("training.steps=1.5", "training.steps: got 1.5; allowed: a whole number >= 1"),
        ("training.steps=true", "training.steps: got True; allowed: a whole number >= 1"),
        ("training.steps=0", "training.steps: got 0; allowed: a whole number >= 1"),
        ("training.optimizer.epsilon=.nan", "training.optimizer.epsilon: got nan; allowed: "),
        ("training.optimizer.beta_1=1", "training.optimizer.beta_1: got 1; allowed: a number >= 0"),
        ("training.strategy=cloud", "training.strategy: got 'cloud'; allowed: auto or one or"),
        ("training=3", "training: got 3; allowed: a section"),
        ("model.conditional=7", "model.conditional: got 7; allowed: true or false or auto"),
        ("data.channels=2", "data.channels: got 2; allowed: 1 or 3"),
        ("data.image_size=33", "data.image_size: got 33, which the networks cannot build; "),
        ("training.replicas=3", "training.global_batch_size: got 64, which training.replicas=3"),
        ("data.input=''", "data.input: got ''; allowed: a text not empty"),
        ("training.steps", "--set training.steps: not of the form section.key=value"),
        ("training.seed.deep=1", "training.seed: got {'deep': 1}; allowed: a whole number"),
        ("training.steps=2147483648", "training.steps: got 2147483648; allowed: a whole number"),
        ("training.penalty.weight=true", "training.penalty.weight: got True; allowed: a number"),
        ("data.schema_file=''", "data.schema_file: got ''; allowed: a text or null not empty"),
        ("serving.push_destination=''", "serving.push_destination: got ''; allowed: a text or"),
        ("runtime.root=''", "runtime.root: got ''; allowed: a text not empty"),
        (
            "runtime.root=gs://b/r",
            "runtime.root: got 'gs://b/r'; allowed: a folder of this machine",
        ),
        ("tuning.trials=-1", "tuning.trials: got -1; allowed: a whole number >= 0"),
        ("tuning.penalty_weight=[3, 1]", "tuning.penalty_weight: got [3, 1]; allowed: a list of 2"),
        ("tuning.penalty_weight=[0, 1]", "tuning.penalty_weight: got [0, 1]; allowed: a list of 2"),
        ("tuning.penalty_weight=[a, 1]", "tuning.penalty_weight: got 'a'; allowed: a list of 2"),
        ("tuning.critic_steps=[]", "tuning.critic_steps: got []; allowed: a list [a whole number"),
        ("tuning.critic_steps=[0]", "tuning.critic_steps: got 0; allowed: a list [a whole number"),
        ("training.warm_start=''", "training.warm_start: got ''; allowed: a text or null not"),
        ("data.input=2024-13-45", "--set data.input=2024-13-45: value is not YAML: month must be"),
        ("data={input: a, input: b}", "--set data={input: a, input: b}: value is not YAML: key"),
        (
            "evaluation.gate.coverge.bound=0.3",
            "evaluation.gate.coverge: unknown key; allowed: relative_frechet_distance, ",
        ),
        (
            "evaluation.gate.coverage.bond=0.3",
            "evaluation.gate.coverage.bond: unknown key; allowed: bound, tolerance, class_bound",
        ),
        (
            "evaluation.gate.coverage.tolerance=-1",
            "evaluation.gate.coverage.tolerance: got -1; allowed: a number or null >= 0",
        ),
        ("evaluation.gate.coverage=0.3", "evaluation.gate.coverage: got 0.3; allowed: a section"),
        (
            "evaluation.gate.recall.class_bound=1.5",
            "evaluation.gate.recall.class_bound: got 1.5, which no model can reach; allowed: 1",
        ),
        (
            "evaluation.gate.frechet_distance.bound=-1",
            "evaluation.gate.frechet_distance.bound: got -1, which no model can reach; allowed: 0",
        ),
        (
            f"evaluation.gate={NOTHING_ASKED}",
            "evaluation.gate: every rule is null, so any model would pass; allowed: at least one",
        ),
        ("evaluation.require=best", "evaluation.require: got 'best'; allowed: not_worse or better"),
        ("data.input.deep=1", "--set data.input.deep=1: data.input is not a section"),
    ],
)
def test_load_wrong_override_is_refused_in_one_line(override, line):
    with pytest.raises(config.ConfigError) as caught:
        config.load("digits", [override])
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_load_one_device_with_replicas_is_refused():
    with pytest.raises(config.ConfigError, match=r"training\.replicas: got 2 with .*=one"):
        config.load("digits", ["training.strategy=one", "training.replicas=2"])


def test_load_options_wrong_together_are_refused():
    wrong = ["model.generator_norm=batch", "training.accumulation_steps=2"]
    with pytest.raises(config.ConfigError, match=r"^training\.accumulation_steps: got 2 with"):
        config.load("digits", wrong)


def test_load_require_better_without_a_tolerance_is_refused():
    wrong = ["evaluation.require=better"]
    wrong += [f"evaluation.gate.{name}.tolerance=" for name in catalogue.BY_NAME]
    with pytest.raises(config.ConfigError, match=r"^evaluation\.require: got 'better', but no me"):
        config.load("digits", wrong)


def test_load_rule_given_in_part_keeps_its_other_defaults():
    default = config.Config().evaluation.gate.relative_frechet_distance
    assert default.bound is not None
    assert default.tolerance is not None
    loaded = config.load(None, ["evaluation.gate.relative_frechet_distance.bound=7"])
    expected = default.model_copy(update={"bound": 7.0})
    assert loaded.evaluation.gate.relative_frechet_distance == expected
    loaded = config.load(None, ["evaluation.gate.coverage.bound=0.3"])
    assert loaded.evaluation.gate.relative_frechet_distance == default
    assert loaded.evaluation.gate.coverage.bound == 0.3


def test_gate_has_a_rule_for_every_metric_of_the_catalogue():
    rules = type(config.Config().evaluation.gate)
    assert list(rules.model_fields) == [metric.name for metric in catalogue.METRICS]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("null", None),
        ("served", None),
        ("/models/../served/7", "/served/7"),
        ("gs://bucket/served/7", "gs://bucket/served/7"),
    ],
)
def test_warm_start_path_is_absolute_or_a_url(given, path):
    assert config.load("digits", [f"training.warm_start={given}"]).warm_start_path == path


def test_sections_that_the_trainer_alone_passes_over_are_those_of_the_pipeline():
    read = set(command.Config.model_fields)
    assert read | set(command.PIPELINE_SECTIONS) == set(config.Config.model_fields)
    assert not read & set(command.PIPELINE_SECTIONS)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[1, 2]", "got a list at top level"),
        ("a: b: c", "not YAML"),
        ("x: 'y", "not YAML"),
        ("x: 2024-13-45", "not YAML: month must be in 1..12"),
        ("data:\n  input: a\n  input: b", "not YAML: key 'input' stands there twice"),
    ],
)
def test_load_file_that_is_no_configuration_is_refused_in_one_line(tmp_path, text, line):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(config.ConfigError, match=line) as caught:
        config.load(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (None, "/there/root/serving"),
        ("/models/../served", "/served"),
        ("gs://bucket/served", "gs://bucket/served"),
    ],
)
def test_push_destination_is_absolute_or_a_url(given, used):
    overrides = [] if given is None else [f"serving.push_destination={given}"]
    assert config.load(None, overrides, root="/there/here/../root").push_destination == used


def test_load_missing_file_names_the_presets():
    with pytest.raises(config.ConfigError, match=r"no such file or preset; .*digits"):
        config.load("nowhere.yaml")


def test_load_empty_file_is_the_defaults(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("")
    assert config.load(str(path)) == config.Config()


def test_show_is_valid_input_and_loses_nothing(tmp_path):
    loaded = config.load(
        "digits",
        [
            "training.optimizer.epsilon=1e-3",
            "model.conditional=false",
            "tuning.critic_steps=[1, 2]",
            "training.warm_start='null: [odd]...'",
            "evaluation.gate.recall.class_bound=0.25",
        ],
    )
    path = tmp_path / "shown.yaml"
    path.write_text(describe.show(loaded))
    assert config.load(str(path)) == loaded


def test_show_gives_every_key_a_meaning():
    lines = describe.show(config.Config()).splitlines()
    keys = [i for i, line in enumerate(lines) if line.strip() and not line.strip().startswith("#")]
    for index in keys:
        commented = "#" in lines[index] or lines[index - 1].strip().startswith("#")
        assert commented, lines[index]


def test_show_gives_a_rule_one_line_and_its_keys_a_meaning_once():
    text = describe.show(config.Config())
    assert "    recall: {bound: null, tolerance: null, class_bound: null, class_" in text
    assert text.count("# tolerance: worsening against the served model") == 1


def test_schema_is_json_and_names_every_section():
    schema = json.loads(json.dumps(config.Config.model_json_schema()))
    assert set(schema["properties"]) == set(config.Config.model_fields)


def _groups(group):
    yield group
    for field in group.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Options):
            yield from _groups(field.annotation)


@pytest.mark.parametrize("group", list(_groups(config.Config)), ids=lambda g: g.__name__)
def test_every_key_has_a_default_and_a_meaning(group):
    for name, field in group.model_fields.items():
        assert not field.is_required(), name
        section = isinstance(field.annotation, type) and issubclass(field.annotation, Options)
        assert section or field.description, name


def test_options_are_frozen():
    options = TrainingOptions()
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        options.steps = 3


@pytest.mark.parametrize("size", IMAGE_SIZES)
def test_image_sizes_the_networks_build_are_accepted(size):
    assert config.load("digits", [f"data.image_size={size}"]).data.image_size == size


def test_training_job_survives_json():
    job = TrainingJob(
        training=TrainingOptions(steps=3, replicas=4),
        image_size=16,
        channels=1,
        class_names=("a", "b"),
        train_files=("x",),
        work_dir="w",
        export_dir="e",
        log_dir="l",
    )
    assert TrainingJob.model_validate_json(job.model_dump_json()) == job


def test_exponent_without_point_is_a_number(tmp_path):
    # YAML 1.1 reads 1e-3 as text; people write it all the same.
    path = tmp_path / "mine.yaml"
    path.write_text("training: {optimizer: {epsilon: 1e-3}}")
    assert yaml.safe_load(path.read_text())["training"]["optimizer"]["epsilon"] == "1e-3"
    assert config.load(str(path)).training.optimizer.epsilon == 0.001


def test_load_preset_is_found_beside_a_folder_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert config.load("digits").data.input == "digits"
