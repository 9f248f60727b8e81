"""The configuration: files and flags that are right, and for wrong ones the line that the user reads."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import config
from pipelines.config import UsageError, changes, load, public, task_fingerprint, task_hash
from pipelines.keys import all_keys
from pipelines.prepare import prepare
from transforms.llm.examples import check_answers
from transforms.llm.prompts import Prompts

MINIMAL = "task: {prompt: 'Review: {text}'}\ninput: {path: a.jsonl}\noutput: {path: out}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, MINIMAL)


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the package's configs directory, with the sample reviews.jsonl."""
    folder = tmp_path / "configs" / "samples"
    folder.mkdir(parents=True)
    (folder / "reviews.jsonl").write_text('{"id": "1", "text": "good"}\n')
    monkeypatch.setattr(config, "_CONFIGS", folder.parent)
    return folder


def write(folder: Path, text: str) -> Path:
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def error(path: Path | str, *overrides: str, **paths: Any) -> str:
    """The message of load()'s UsageError, without the file's directory."""
    with pytest.raises(UsageError) as raised:
        load(str(path), overrides, **paths)
    return str(raised.value).replace(f"{Path(path).parent}/", "")


def test_a_minimal_file_has_all_defaults(file: Path) -> None:
    settings = load(str(file))
    assert settings.task.prompt == "Review: {text}"
    assert settings.input.paths == ["a.jsonl"]
    assert settings.model.provider == "embedded"
    assert settings.limits.max_attempts == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MINIMAL.replace("path: out", "path: out, path: b"),
            "x.yaml:3: key 'path' is given twice, first in line 3",
        ),
        (MINIMAL + "task: {}\n", "x.yaml:4: key 'task' is given twice, first in line 1"),
        ("task:\n  prompt: 'a\n", "x.yaml:3: found unexpected end of stream"),
        ("task:\n\tprompt: a\n", "x.yaml:2: found character '\\t' that cannot start any token"),
        ("task: a\x01\n", "x.yaml:1: character U+0001 is not allowed"),
        ("a: *b\n", "x.yaml:1: found undefined alias 'b'"),
        ("a: !!python/name:os.system\n", "x.yaml:1: could not determine a constructor for the tag"),
        ("a: 1\n---\nb: 1\n", "x.yaml:2: but found another document"),
        ("", "x.yaml: must be a mapping with the sections task, input, output, model, limits"),
        ("- task\n", "x.yaml: must be a mapping with the sections task, input, output, model, limits"),
        ("a: " + "[" * 5000, "x.yaml: nested too deeply"),
        ("a: !!int x\n", "x.yaml: not valid YAML: ValueError in a value with a tag"),
        ("a: &a [*a]\n", "x.yaml: nested too deeply, or an alias inside of itself"),
        ("model: {parameters: {1: a}}\n", "x.yaml: model.parameters: a key must be text, put 1 in quotes"),
        ("model: {parameters: {a: !!float .nan}}\n", "x.yaml: model.parameters.a: must be a finite number"),
        ("model: {parameters: {a: 1e999}}\n", "x.yaml: model.parameters.a: must be a finite number"),
        (
            "model: {parameters: {a: !!timestamp 2024-01-01}}\n",
            "x.yaml: model.parameters.a: a date cannot be in a configuration",
        ),
        ('model: {name: "\\ud800"}\n', "x.yaml: model.name: not valid Unicode text"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str, message: str) -> None:
    assert error(write(tmp_path, text)).startswith(message)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert error(tmp_path / "no.yaml") == "no.yaml: no such file"
    (tmp_path / "latin.yaml").write_bytes(b"task: {name: \xe9}")
    assert error(tmp_path / "latin.yaml") == "latin.yaml: not UTF-8 text"
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(str(tmp_path))


def test_plain_values_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    text = MINIMAL + "model: {structured_output: off, parameters: {a: [no, 2024-01-01, 12:30, 007, .5, 1e-3, true, ~]}}"
    model = load(str(write(tmp_path, text))).model
    assert model.structured_output == "off"
    assert model.parameters["a"] == ["no", "2024-01-01", "12:30", "007", 0.5, 0.001, True, None]


def test_merge_keys_may_be_overridden(tmp_path: Path) -> None:
    text = MINIMAL + "model:\n  parameters:\n    a: &a {x: 1, y: 1}\n    b: {<<: *a, x: 2}\n"
    assert load(str(write(tmp_path, text))).model.parameters == {"a": {"x": 1, "y": 1}, "b": {"x": 2, "y": 1}}


def test_a_section_with_all_keys_commented_out_is_empty(tmp_path: Path) -> None:
    assert load(str(write(tmp_path, MINIMAL + "limits:\n  #max_in_flight: 3\n"))).limits.max_attempts == 5
    assert error(write(tmp_path, "task:\ninput: {path: a}\noutput: {path: b}\n")) == "x.yaml: task.prompt: missing"


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("model: {nam: a}", "x.yaml: model.nam: unknown key, did you mean model.name?"),
        ("modle: {name: a}", "x.yaml: modle: unknown key, did you mean model?"),
        (
            "model: {max_in_flight: 3}",
            "x.yaml: model.max_in_flight: unknown key, did you mean limits.max_in_flight?",
        ),
        (
            "model: {price: {input: 1, output: 1, in: 1}}",
            "x.yaml: model.price.in: unknown key, model.price has input, output, cached_input",
        ),
        (
            "limits: {zzz: 1}",
            "x.yaml: limits.zzz: unknown key, limits has max_in_flight, requests_per_minute",
        ),
        ("zzz: 1", "x.yaml: zzz: unknown key, the configuration has task, input, output, model, limits"),
        ("limits: {max_in_flight: -3}", "x.yaml: limits.max_in_flight: must be greater than 0, got -3"),
        ("limits: {max_in_flight: many}", "x.yaml: limits.max_in_flight: must be a whole number, got 'many'"),
        ("limits: {max_in_flight: 1.5}", "x.yaml: limits.max_in_flight: must be a whole number, got 1.5"),
        ("limits: {headroom: 2}", "x.yaml: limits.headroom: must be less than or equal to 1, got 2"),
        ("limits: {timeout_seconds: long}", "x.yaml: limits.timeout_seconds: must be a number, got 'long'"),
        ("limits: 3", "x.yaml: limits: must be a mapping, got 3"),
        (
            "model: {provider: opnai}",
            "x.yaml: model.provider: must be one of embedded, openai, azure, anthropic, got 'opnai'",
        ),
        ("model: {provider: azure, name: m}", "x.yaml: model: base_url is missing: the resource's address"),
        (
            "model: {provider: anthropic, name: m, structured_output: json_object}",
            "x.yaml: model: structured_output: anthropic has no json_object",
        ),
        (
            "model: {provider: openai}",
            "x.yaml: model: name is missing: the model's name as the endpoint knows it",
        ),
        ("model: {name: 5}", "x.yaml: model.name: must be text, got 5"),
        ("model: {name: true}", "x.yaml: model.name: must be text, got true"),
        ("model: {parameters: [a]}", "x.yaml: model.parameters: must be a mapping"),
        ("model: {price: {input: 1}}", "x.yaml: model.price.output: missing"),
    ],
)
def test_a_value_that_is_wrong(tmp_path: Path, added: str, message: str) -> None:
    assert error(write(tmp_path, f"{MINIMAL}{added}\n")).startswith(message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("prompt: 'Review: {text}'", "system: a", "x.yaml: task.prompt: missing"),
        ("prompt: 'Review: {text}'", "prompt: ''", "x.yaml: task.prompt: must not be empty"),
        ("{prompt:", "{schema: 3, prompt:", "x.yaml: task.schema: must be a mapping, got 3"),
        (
            "{prompt:",
            "{answer_schema: {}, prompt:",
            "x.yaml: task.answer_schema: unknown key, did you mean task.schema?",
        ),
        (
            "{prompt:",
            "{name: 'a b', prompt:",
            "x.yaml: task.name: must match pattern '^[A-Za-z0-9_-]{1,64}$', got 'a b'",
        ),
        ("path: a.jsonl", "path: 3", "x.yaml: input.path: must be text or a list of texts, got 3"),
        ("path: a.jsonl", "path: [a, 3]", "x.yaml: input.path: must be text or a list of texts"),
        (
            "path: a.jsonl",
            "path: a, carry: {a: text}",
            "x.yaml: input.carry: must be a list of columns, or a mapping",
        ),
        ("path: a.jsonl", "path: a, format: xml", "x.yaml: input.format: must be "),
        ("path: a.jsonl", "path: a, delimiter: ab", "x.yaml: input.delimiter: must match pattern"),
        ("path: a.jsonl", "path: a, delimiter: '\"'", "x.yaml: input.delimiter: must match pattern"),
        ("path: a.jsonl", "path: a, encoding: utf-9", "x.yaml: input.encoding: no text encoding that Python knows"),
        ("path: a.jsonl", "path: a, encoding: hex", "x.yaml: input.encoding: no text encoding that Python knows"),
        ("{prompt:", "{messages: chat, prompt:", "x.yaml: task: messages: the column's messages are sent as they are"),
        ("prompt: 'Review: {text}'", "messages: chat, images: a", "x.yaml: task: messages: .*leave out images"),
        ("prompt: 'Review: {text}'", "messages: ''", "x.yaml: task.messages: must not be empty"),
        ("prompt: 'Review: {text}'", "messages: null", "x.yaml: task.prompt: missing"),
        ("{prompt:", "{images: 3, prompt:", "x.yaml: task.images: must be a column or a list of columns, got 3"),
        ("{prompt:", "{images: [a, 3], prompt:", "x.yaml: task.images: must be a column or a list of columns"),
        ("{prompt:", "{examples: [{input: a}], prompt:", "x.yaml: task.examples.0.answer: missing"),
        ("{prompt:", "{examples: [{input: 3, answer: a}], prompt:", "x.yaml: task.examples.0.input: must be text or a"),
        ("{prompt:", "{parameters_from: {seed: 3}, prompt:", "x.yaml: task.parameters_from.seed: must be text, got 3"),
        ("{prompt:", "{on_truncated: keep, schema: {}, prompt:", "x.yaml: task: on_truncated: keep is for texts"),
    ],
)
def test_a_required_section_that_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = error(write(tmp_path, MINIMAL.replace(old, new)))
    assert re.match(f"{re.escape(message)}".replace(r"\.\*", ".*"), text), text
    assert "\n" not in text


def test_messages_take_the_place_of_the_prompt(tmp_path: Path) -> None:
    task = load(str(write(tmp_path, MINIMAL.replace("prompt: 'Review: {text}'", "messages: chat")))).task
    assert (task.messages, task.prompt) == ("chat", "")
    classify = config.default_config("classify")
    changes = ["task.messages=chat", "task.system=", "task.prompt="]
    assert load(classify, changes).task.messages == "chat"


def test_every_mistake_has_a_line(tmp_path: Path) -> None:
    assert error(write(tmp_path, "task: {}\noutput: {path: o}\nmodel: {nam: a}\n")).splitlines() == [
        "x.yaml: task.prompt: missing",
        "x.yaml: input: missing",
        "x.yaml: model.nam: unknown key, did you mean model.name?",
    ]


def test_what_could_be_a_secret_is_not_echoed(tmp_path: Path) -> None:
    text = MINIMAL + "model: {headers: {X-Team: 555}, api_key_env: 555, api_key: 555}\n"
    message = error(write(tmp_path, text))
    assert "555" not in message
    assert message.count("\n") == 2
    assert "555" not in error(write(tmp_path, MINIMAL), "model.headers.X-Team=555")
    assert "555" not in error(write(tmp_path, MINIMAL), "model.headers={X: 555")


# --set


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("model.name=gpt", "name", "gpt"),
        ("model.name=a=b", "name", "a=b"),
        ("model.name='5'", "name", "5"),
        ("model.base_url=http://localhost:8000/v1", "base_url", "http://localhost:8000/v1"),
        ("model.structured_output=off", "structured_output", "off"),
        ("model.parameters.temperature=0", "parameters", {"temperature": 0}),
        ("model.parameters.top_p=1e-1", "parameters", {"top_p": 0.1}),
        ("model.parameters.stop=[a, 1, null]", "parameters", {"stop": ["a", 1, None]}),
        ("model.parameters.stream=false", "parameters", {"stream": False}),
        ("model.parameters.stop=a: b #c", "parameters", {"stop": "a: b #c"}),
        ("model.parameters={a: {b: 1}}", "parameters", {"a": {"b": 1}}),
        ("model.name=null", "name", None),
        ("model.name=", "name", None),
    ],
)
def test_set(file: Path, override: str, key: str, value: object) -> None:
    assert getattr(load(str(file), [override]).model, key) == value


@pytest.mark.parametrize(
    ("value", "prompt"),
    [
        ("{text}", "{text}"),
        ("Review #1: {text}", "Review #1: {text}"),
        ("[INST] {text}", "[INST] {text}"),
        ("5", "5"),
        ('"a\\n{text}"', "a\n{text}"),
    ],
)
def test_set_takes_prompts_as_they_stand(file: Path, value: str, prompt: str) -> None:
    assert load(str(file), [f"task.prompt={value}"]).task.prompt == prompt


def test_set_reaches_into_the_schema_and_the_last_one_wins(file: Path) -> None:
    key = "task.schema.properties.label.enum"
    settings = load(str(file), [f"{key}=[a]", f"{key}=[yes, no]"])
    assert settings.task.answer_schema == {"properties": {"label": {"enum": ["yes", "no"]}}}


def test_set_changes_one_place_of_a_shared_alias(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "model: {parameters: {a: &a {x: 1}, b: *a}}\n")
    assert load(str(path), ["model.parameters.a.x=2"]).model.parameters == {"a": {"x": 2}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "model.name",
            "--set model.name: has no value, write --set KEY=VALUE, e.g. --set model.name=gpt-4o-mini",
        ),
        ("=a", "--set: no key before '='"),
        ("model..name=a", "--set: no key before '='"),
        ("model.nam=a", "--set model.nam: unknown key, did you mean model.name?"),
        ("limits.max_in_flight=-3", "--set limits.max_in_flight: must be greater than 0, got -3"),
        ("input.path.x=1", "--set input.path.x: input.path is not a mapping"),
        (
            "model.name={a",
            "--set model.name: expected ',' or '}', but got '<stream end>' (a text that begins with {",
        ),
        ("model.parameters={a: 1, a: 2}", "--set model.parameters: key 'a' is given twice"),
        ("model.parameters.a={1: 2}", "--set model.parameters.a: a key must be text, put 1 in quotes"),
        ("model.parameters.a=1e999", "--set model.parameters.a: must be a finite number"),
        ("task.prompt=\udcff", "--set task.prompt: not valid Unicode text"),
        ("task={prompt: ''}", "--set task: task.prompt: must not be empty"),
        ("model.provider=openai", "x.yaml: model: name is missing"),
    ],
)
def test_set_that_is_wrong(file: Path, override: str, message: str) -> None:
    assert error(file, override).startswith(message)


# --input, --output and samples


def test_input_and_output_come_last(file: Path) -> None:
    settings = load(str(file), ["input.path=b", "output.path=b"], input_path=["c", "d"], output_path="e")
    assert (settings.input.path, settings.output.path) == (["c", "d"], "e")
    assert error(file, output_path="") == "--output: must not be empty"


def test_input_and_output_need_not_be_in_the_file(tmp_path: Path) -> None:
    settings = load(str(write(tmp_path, "task: {prompt: a}")), input_path=["c"], output_path="e")
    assert (settings.input.paths, settings.output.path) == (["c"], "e")


def test_a_sample_is_a_file_of_the_package(file: Path, samples: Path) -> None:
    expected = str(samples / "reviews.jsonl")
    assert load(str(file), ["input.path=sample:reviews.jsonl"]).input.path == expected
    assert load(str(file), input_path=["sample:reviews.jsonl", "b"]).input.path == [expected, "b"]


def test_an_unknown_sample(file: Path, samples: Path) -> None:
    assert error(file, "input.path=sample:x") == "--set input.path: no sample 'x', there are: reviews.jsonl"
    assert error(file, input_path=["sample:../x.yaml"]).startswith("--input: no sample '../x.yaml'")


# What the account keeps


def test_public_is_json_and_masks_secrets(file: Path) -> None:
    overrides = [
        "model.headers.X-Team=hush",
        "model.base_url=https://me:hush@host/v1",
        "task.schema={type: object}",
    ]
    values = public(load(str(file), overrides))
    assert values["model"]["headers"] == {"X-Team": "***"}
    assert values["model"]["base_url"] == "https://***@host/v1"
    assert values["task"]["schema"] == {"type": "object"}
    assert "answer_schema" not in values["task"]
    assert "hush" not in repr(values)


@pytest.mark.parametrize(
    "override",
    [
        "limits.max_in_flight=3",
        "limits.timeout_seconds=3",
        "model.price={input: 1, output: 2}",
        "model.base_url=http://x",
        "model.api_key_env=KEY",
        "model.headers={a: b}",
        "input.carry=[a]",
        "input.max_chars=9",
        "input.text=text",
        "output.format=jsonl",
        "task.name=other",
        "task.on_truncated=keep",
        "task.examples=[]",
        "task.images=[]",
        "task.messages=null",
        "task.parameters_from={}",
        "model.parameters={}",
    ],
)
def test_what_cannot_change_an_answer_is_not_in_the_hash(file: Path, override: str) -> None:
    assert task_hash(load(str(file), [override])) == task_hash(load(str(file)))


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("task.prompt=Text: {text}", "task.prompt: 'Review: {text}' -> 'Text: {text}'"),
        ("task.system=a", "task.system: '' -> 'a'"),
        ("task.schema={type: object}", 'task.schema: null -> {"type":"object"}'),
        ("model.name=a", "model.name: null -> 'a'"),
        ("model.path=/models/a.gguf", "model.path: null -> 'a.gguf'"),
        ("model.parameters.temperature=1", "model.parameters.temperature: (not set) -> 1"),
        ("model.parameters.my_key=hush", "model.parameters.my_key: *** -> ***"),
        ("model.structured_output=off", "model.structured_output: 'json_schema' -> 'off'"),
        ("input.text=body", "input.text: 'text' -> 'body'"),
        ("input.on_oversized=truncate", "input.max_chars: (not set) -> 8000"),
        (
            "task.examples=[{input: a, answer: b}]",
            'task.examples: (not set) -> [{"answer":"b","input":"a"}]',
        ),
        ("task.images=photo", 'task.images: (not set) -> ["photo"]'),
        ("task.parameters_from={seed: s}", 'task.parameters_from: (not set) -> {"seed":"s"}'),
    ],
)
def test_what_changes_an_answer_changes_the_hash(file: Path, override: str, line: str) -> None:
    old, new = load(str(file)), load(str(file), [override])
    assert changes(task_fingerprint(old), task_fingerprint(new)) == [line]
    assert task_hash(old) != task_hash(new)
    assert re.fullmatch("[0-9a-f]{16}", task_hash(new))


def test_changes_of_a_schema_are_named_by_its_keys(file: Path) -> None:
    old, new = (load(str(file), [f"task.schema.properties.api_key.enum=[{value}]"]) for value in "ab")
    assert changes(task_fingerprint(old), task_fingerprint(new)) == [
        'task.schema.properties.api_key.enum: ["a"] -> ["b"]'
    ]


def test_another_provider_is_another_task(file: Path) -> None:
    old, new = load(str(file)), load(str(file), ["model.provider=openai", "model.name=a"])
    assert changes(task_fingerprint(old), task_fingerprint(new)) == [
        "model.name: null -> 'a'",
        "model.path: null -> (not set)",
        "model.provider: 'embedded' -> 'openai'",
    ]


def test_the_models_directory_does_not_matter(file: Path) -> None:
    assert task_hash(load(str(file), ["model.path=/a/m.gguf"])) == task_hash(load(str(file), ["model.path=b/m.gguf"]))


def test_equal_numbers_are_equal_and_true_is_not_1(file: Path) -> None:
    zero, float_zero, false = (load(str(file), [f"model.parameters.a={value}"]) for value in ("0", "0.0", "false"))
    assert task_hash(zero) == task_hash(float_zero)
    assert task_hash(zero) != task_hash(false)
    assert changes(task_fingerprint(zero), task_fingerprint(false)) == ["model.parameters.a: 0 -> false"]


def test_long_values_are_shortened_around_the_first_difference(file: Path) -> None:
    old, new = (load(str(file), [f"task.prompt={'a' * 200}{mark}{'b' * 200}"]) for mark in "xy")
    (line,) = changes(task_fingerprint(old), task_fingerprint(new))
    assert line == "task.prompt: " + " -> ".join(f"…{'a' * 20}{mark}{'b' * 39}…" for mark in "xy")


def test_the_hash_stays_the_same_over_versions(file: Path) -> None:
    """A change of it makes everyone's prior output another task's: not to be done in passing."""
    assert task_hash(load(str(file))) == "ae0aa49f1f601ba7"


def test_a_password_of_redis_is_moved_to_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIDONCE_SHARED_PASSWORD", "another")
    settings = load(str(file), ["limits.shared=redis://:a-secret-word@cache:6379/0"])
    assert settings.limits.shared == "redis://:${PAIDONCE_SHARED_PASSWORD}@cache:6379/0"
    assert os.environ["PAIDONCE_SHARED_PASSWORD"] == "a-secret-word"
    assert "a-secret-word" not in json.dumps(config.public(settings))
    assert task_hash(settings) == task_hash(load(str(file)))


def test_what_is_no_redis_is_refused_without_its_password(file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(str(file), ["limits.shared=memcached://:a-secret-word@cache:11211"])
    assert str(caught.value) == (
        "--set limits.shared: must be redis://HOST:PORT/DATABASE, or rediss:// with TLS; a password goes before HOST "
        "as :${NAME}@"
    )


# The files that come with the package


def test_the_default_configuration_loads(samples: Path) -> None:
    path = Path(__file__).parents[2] / "configs" / "classify.yaml"
    settings = load(str(path))
    assert settings.input.path == str(samples / "reviews.jsonl")
    assert settings.output.path == "out/classify"


@pytest.mark.parametrize(
    ("name", "variable", "model"),
    [
        ("openai", "OPENAI_API_KEY", "gpt-4o-mini"),
        ("anthropic", "ANTHROPIC_API_KEY", "claude-haiku-4-5"),
        ("azure", "AZURE_OPENAI_API_KEY", "my-deployment"),
    ],
)
def test_the_example_of_an_endpoint_loads_without_its_key(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str, model: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    settings = load(config.default_config(name))
    assert (settings.model.provider, settings.model.name, settings.model.api_key_env) == (name, model, variable)


@pytest.mark.parametrize("name", ["classify", "summarize", "extract", "tickets"])
def test_a_task_that_comes_with_the_package_fits_its_sample(name: str) -> None:
    settings = load(config.default_config(name))
    check_answers(settings.task)
    Prompts(settings.task, settings.input, settings.model)
    prepared = prepare(settings, {})
    assert prepared.schema.names[0] == "id"


def test_the_default_configuration_names_every_key_and_its_default() -> None:
    text = Path(config.default_config("classify")).read_text()
    written = yaml.safe_load(text)
    full = yaml.safe_load(re.sub(r"^( +)#(\w+:)", r"\1\2", text, flags=re.MULTILINE))
    price = {key for key in all_keys() if key.startswith("model.price.")}  # shown in the comment of model.price
    assert all(f"{key.rpartition('.')[2]}:" in text for key in price)
    named = {name for section, keys in full.items() for name in (section, *(f"{section}.{key}" for key in keys))}
    assert named == set(all_keys()) - price
    settings = public(load(config.default_config("classify"), input_path=["a"]))
    for section, values in full.items():
        for key in values.keys() - (written[section] or {}).keys():
            assert settings[section][key] == values[key], f"{section}.{key}"


@pytest.mark.parametrize(
    ("overrides", "shares"),
    [
        ([], True),  # the embedded model answers at temperature 0
        (["model.parameters.temperature=0.0"], True),
        (["model.parameters.temperature=1"], False),
        (["task.parameters_from={temperature: heat}"], False),
        (["model={provider: openai, name: m}"], False),
        (["model={provider: openai, name: m, parameters: {temperature: 0}}"], True),
        (["model={provider: openai, name: m}", "task.share_identical=always"], True),
        (["task.share_identical=never"], False),
    ],
)
def test_identical_requests_are_shared_where_their_answers_are_the_same(
    file: Path, overrides: list[str], shares: bool
) -> None:
    assert load(str(file), overrides).shares_identical is shares


def test_records_per_call_make_another_task_and_sharing_does_not(file: Path) -> None:
    plain = task_hash(load(str(file)))
    assert task_hash(load(str(file), ["task.records_per_call=1", "task.share_identical=never"])) == plain
    assert task_hash(load(str(file), ["task.records_per_call=2"])) != plain
