"""The command line: what is taken, what goes to Beam, and the line that the user reads for what is wrong."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.config import UsageError
from pipelines.invocation import again, without
from pipelines.options import RUNNERS, Options, check_beam_flags, parse


def options(*argv: str) -> Options:
    return parse(argv, prog="python -m pipelines.classify", description="Classify.", default_config="c.yaml")


def error(*argv: str) -> str:
    with pytest.raises(UsageError) as raised:
        options(*argv)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_defaults() -> None:
    assert options() == Options("c.yaml", None, None, [], None, "retryable", "stop", False, [])


def test_reasons_are_taken_apart_and_given_once() -> None:
    given = options("--retry-reason=invalid_json,truncated", "--retry-reason", "refusal, truncated")
    assert given.retry_reasons == ("invalid_json", "truncated", "refusal")


@pytest.mark.parametrize("reason", ["invalid-json", "", "invalid_json,,refusal", "auth"])
def test_an_unknown_reason_is_refused_with_those_there_are(reason: str) -> None:
    message = error(f"--retry-reason={reason}")
    assert message.startswith("--retry-reason: there is no reason '")
    assert "bad_encoding, bad_id" in message
    assert "upstream_error" in message
    assert ("did you mean invalid_json?" in message) == (reason == "invalid-json")


def test_the_command_is_kept_without_secrets_and_without_which_rows() -> None:
    argv = [
        "--input=a b.jsonl",
        *("--set", "model.headers={X: hush-hush}"),
        *("--set", "model.api_key_env=MY_KEY"),
        *("--s3_secret_access_key", "hush2", "--s3_session_token=hush3", "--s3_region_name", "eu-west-1"),
        *("--set=model.base_url=https://me:pass@host/v1", "--retry", "all", "--limit=3", "--on-change=keep"),
    ]
    command = options(*argv).command
    assert command.startswith("python -m pipelines.classify '--input=a b.jsonl' --set ")
    assert "hush" not in command
    assert "pass" not in command
    assert "eu-west-1" in command
    assert "model.api_key_env=MY_KEY" in command
    tried = again(command, "--retry-reason=refusal")
    assert tried.endswith(" --retry-reason=refusal")
    assert tried.count("--retry") == 1
    assert "--limit" not in tried
    assert "--on-change" not in tried
    assert options(*shlex.split(tried)[3:]).retry_reasons == ("refusal",)


@pytest.mark.parametrize("pilot", [["--pilot", "20"], ["--pilot=20"]])
def test_the_command_without_a_flag(pilot: list[str]) -> None:
    argv = ["--input", "a b/*.jsonl", *pilot, "--set", "task.prompt=it's {text}", "--retry=all"]
    rest = without(options(*argv).command, "--pilot")
    assert shlex.split(rest)[3:] == ["--input", "a b/*.jsonl", "--set", "task.prompt=it's {text}", "--retry=all"]
    assert without(options(*pilot).command, "--pilot") == "python -m pipelines.classify"


def test_the_command_names_the_interpreter_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", [".venv/bin/python", "-m", "pipelines.classify", "--limit", "3"])
    assert options("--limit", "3").command == ".venv/bin/python -m pipelines.classify --limit 3"
    assert options("--limit", "4").command == "python -m pipelines.classify --limit 4"


def test_all_flags() -> None:
    argv = "--config a --input b --input=c --output d --set e=1 --set f=2 --limit 3 --retry all --verbose"
    assert options(*argv.split(), "--on-change=keep") == Options(
        "a", ["b", "c"], "d", ["e=1", "f=2"], 3, "all", "keep", True, []
    )


def test_what_comes_before_a_run() -> None:
    found = options("--estimate", "--pilot=20")
    assert (found.estimate, found.dry_run, found.pilot, found.limit) == (True, False, 20, None)
    assert options("--dry-run", "--limit", "2").dry_run


@pytest.mark.parametrize(
    "flags",
    [
        "--runner=FlinkRunner --flink_master localhost:8081 --parallelism=4",
        "--runner=FlinkRunner --number_of_execution_retries 3 --execution_retry_delay=10000 --max_bundle_size=1000",
        "--runner PrismRunner --prism_location /bin/prism --prism_log_level=error",
        "--runner spark --spark_version 3 --job_endpoint=embed --job-server-timeout 5",
        "--runner=DataflowRunner --project p --region r --labels a=b --no_use_public_ips",
        "--runner=apache_beam.runners.direct.direct_runner.DirectRunner",
        "--direct_num_workers 2 --direct_running_mode multi_processing --job_port 0",
        "--experiments a,b --experiment=c --streaming --save_main_session --no_save_main_session",
        "--update_compatibility_version --streaming",
        "--update_compatibility_version 2.70.0",
        '--sdk_harness_log_level_overrides {"a":"INFO"}',
        "--s3_region_name eu --hdfs_full_urls",
    ],
)
def test_what_beam_takes_goes_to_beam(flags: str) -> None:
    beam_args = flags.split()
    assert options(*beam_args).beam_args == beam_args
    assert options(beam_args[0], *beam_args[1:], "--limit", "3").beam_args == beam_args


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_runners_that_a_message_names_are_known(runner: str) -> None:
    check_beam_flags([f"--runner={runner}"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--input", "--input needs a value"),
        ("--limit many", "--limit: must be a whole number greater than 0, got 'many'"),
        ("--limit 0", "--limit: must be a whole number greater than 0, got '0'"),
        ("--limit=-1", "--limit: must be a whole number greater than 0, got '-1'"),
        ("--pilot 0", "--pilot: must be a whole number greater than 0, got '0'"),
        ("--pilot 3 --limit 3", "--limit: not allowed with argument --pilot"),
        ("--limit 3 --pilot 3", "--pilot: not allowed with argument --limit"),
        ("--estimate --dry-run", "--dry-run: not allowed with argument --estimate"),
        ("--dry-run --pilot 3", "--dry-run: not allowed with argument --pilot"),
        ("--retry some", "--retry: invalid choice: 'some' (choose from "),
        ("--verbose=1", "--verbose: ignored explicit argument '1'"),
        ("-- a", "unexpected argument '--'"),
        ("data.jsonl", "unexpected argument 'data.jsonl': name input files with --input"),
        ("--input a.jsonl b.jsonl", "unexpected argument 'b.jsonl': name input files with --input"),
        (
            "--runner DirectRunner data.jsonl",
            "unexpected argument 'data.jsonl': name input files with --input",
        ),
        ("--streaming true", "unexpected argument 'true': "),
        ("--runer FlinkRunner", "unknown flag --runer, did you mean --runner?"),
        ("--runer=secret", "unknown flag --runer, did you mean --runner?"),
        ("-runner DirectRunner", "unknown flag -runner, did you mean --runner?"),
        ("--inptu a", "unknown flag --inptu, did you mean --input?"),
        ("--on_change=keep", "unknown flag --on_change, did you mean --on-change?"),
        ("--flink-master=a", "unknown flag --flink-master, did you mean --flink_master?"),
        ("--retr all", "unknown flag --retr, did you mean --retry?"),
        ("--spark_mas a", "unknown flag --spark_mas, did you mean --spark_master_url?"),
        ("--pri a", "unknown flag --pri, did you mean --prism_location?"),
        ("--base-url=a", "unknown flag --base-url, did you mean --set model.base_url=VALUE?"),
        ("--limits.headroom=1", "unknown flag --limits.headroom, did you mean --set limits.headroom=VALUE?"),
        ("--zzzzzz", "unknown flag --zzzzzz, --help lists the program's own flags"),
        ("--runner", "--runner needs a value"),
        ("--flink_master --verbose", "--flink_master needs a value"),
        ("--streaming=true", "--streaming: ignored explicit argument 'true'"),
        ("--direct_num_workers=two", "--direct_num_workers: invalid int value: 'two'"),
        ("--direct_running_mode=x", "--direct_running_mode: invalid choice: 'x' (choose from "),
        ("--transform_name_mapping={", "--transform_name_mapping: invalid loads value: '{'"),
        ("--sdk_harness_log_level_overrides=5", "a flag of Beam has a value that cannot be read: "),
        ("--gcs_custom_audit_entries={", "a flag of Beam has a value that cannot be read: "),
        (
            "--runner=FlinkRuner",
            "--runner: unknown runner 'FlinkRuner'; there are DirectRunner, PrismRunner, FlinkRunner",
        ),
        ("--runner=", "--runner: unknown runner ''"),
        ("--runner=data.jsonl", "--runner: unknown runner 'data.jsonl'"),
        ("--runner=os.path.Nope", "--runner: unknown runner 'os.path.Nope'"),
        ("--runner=..x", "--runner: unknown runner '..x'"),
    ],
)
def test_what_is_wrong(argv: str, message: str) -> None:
    assert error(*argv.split()).startswith(message)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        options("--help")
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    flags = (
        "--config",
        "--input",
        "--output",
        "--set",
        "--limit",
        "--pilot",
        "--estimate",
        "--dry-run",
        "--retry",
        "--on-change",
        "--verbose",
        "--version",
    )
    assert all(f"{flag}" in text for flag in flags)
    assert "python -m pipelines.classify --input 'reviews/*.jsonl'" in text
    assert "(default: c.yaml)" in text


def test_help_speaks_of_the_commands_own_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], prog="python -m pipelines.x", description="", default_config="x.yaml", files="orders")
    text = capsys.readouterr().out
    assert "python -m pipelines.x --input 'orders/*.jsonl' --output out/orders" in text
    assert "reviews" not in text


def test_a_command_without_a_configuration_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    def infer(*argv: str) -> Options:
        return parse(argv, prog="infer", description="", default_config=None, files="tickets")

    assert infer("--config", "a").config == "a"
    with pytest.raises(UsageError, match="--config is missing"):
        infer("--limit", "3")
    with pytest.raises(SystemExit) as stopped:
        infer("--help")
    assert stopped.value.code == 0
    assert "infer --config FILE --input 'tickets/*.jsonl'" in capsys.readouterr().out


@pytest.mark.parametrize("argv", ["[]", "['--set', 'a=1']", "['--help']", "['--version']", "['--limit', 'x']"])
def test_beam_is_imported_only_for_its_own_flags(argv: str) -> None:
    code = f"""
from pipelines.config import UsageError
from pipelines.options import parse
try:
    parse({argv}, prog="p", description="", default_config="c")
except (SystemExit, UsageError):
    pass
import sys
sys.exit("apache_beam" in sys.modules)
"""
    root = Path(__file__).parents[2]
    assert subprocess.call([sys.executable, "-c", code], cwd=root, stdout=subprocess.DEVNULL) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        options("--version")
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("paidonce ")
