"""What stands on the page, read as HTML; how it looks is test_report_in_browser.py's."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pipelines.report import after, write
from pipelines.report.__main__ import main
from pipelines.report.after import write_report_if_possible
from pipelines.report.write import write_report
from pipelines.usage import UsageError


class Page(HTMLParser):
    """A page taken apart: its elements and its text."""

    VOID = ("meta", "link", "br")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def page_of(output: Any) -> Page:
    write_report(output.layout, str(output.page))
    return Page(output.page)


def test_everything_is_there_and_nothing_runs(rich_output: Any) -> None:
    page = page_of(rich_output)
    for word in ("Rows over time", "Cost over time", "Latency", "Prompt tokens", "Accuracy of label", "Confusion"):
        assert word in page.text
    assert "≥ $1.00" not in page.text
    assert "1,000" in page.text  # rows ok
    assert "json_schema refused 3" in page.text
    assert "may be billed all the same 6" in page.text
    assert "Free text, not drawn: summary" in page.text
    assert "<i>disk</i> full" in page.text
    assert "</script><b>bold</b>" in page.text
    assert not {"script", "img", "b", "i", "iframe", "object"} - {"i"} & set(page.tags)
    assert not [name for name, _value in page.attributes if name.startswith("on")]
    assert [value for name, value in page.attributes if name in ("src", "href")] == ["data:,"]


def test_secrets_are_masked(rich_output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = rich_output.run([{"label": "the-key-itself-1"}], [{"message": "the-key-itself-1"}])
    account = Path(rich_output.layout.account(run_id))
    values = json.loads(account.read_text())
    values["config"]["model"]["api_key_env"] = "SOME_KEY"
    account.write_text(json.dumps(values))
    monkeypatch.setenv("SOME_KEY", "the-key-itself-1")
    page_of(rich_output)
    text = rich_output.page.read_text(encoding="utf-8")
    assert "sk-abcdefghijklmnop1234" not in text
    assert "the-key-itself-1" not in text


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_labels_are_counted(output: Any, format: str) -> None:
    output.run([{"label": "yes"}] * 3 + [{"label": "no"}], format=format)
    assert "value rows share yes 3 75.0 % no 1 25.0 %" in page_of(output).text


def test_of_very_many_labels_the_first_are_shown(output: Any) -> None:
    rows = [{"label": f"label {number}"} for number in range(10_000)]
    output.run([*rows, *rows, {"label": "label 7"}])
    page = page_of(output)
    assert "label 7 3 " in page.text
    assert "9,990 others 19,980" in page.text
    assert output.page.stat().st_size < 200_000


def test_quality_by_hand(output: Any) -> None:
    pairs = [("a", "a"), ("a", "a"), ("b", "a"), ("b", "b"), (None, "b")]
    output.run([{"expected": right, "label": given} for right, given in pairs])
    text = page_of(output).text
    assert "75.0 % 3 of 4 answers are the expected ones. 1 answers without an expected one are left out." in text
    assert "a 2 66.7 % 100 % 80.0 % b 2 100 % 50.0 % 66.7 %" in text
    assert "expected a b a 2 0 b 1 1" in text


def test_unknown_amounts_are_said_to_be_unknown(output: Any) -> None:
    output.run(
        [{"cost_usd": None, "prompt_tokens": None, "completion_tokens": None, "latency_ms": None}] * 2,
        cost_usd=None,
        prompt_tokens=None,
        completion_tokens=None,
        cost_unknown_rows=2,
    )
    text = page_of(output).text
    assert "Cost so far unknown 2 rows of unknown cost" in text
    assert "Tokens unknown unknown in, unknown out" in text
    assert "$" not in text
    assert "Cost over time" not in text
    output.run([{}] * 2)
    assert "Cost so far ≥ $0.002" in page_of(output).text


def test_only_failures(output: Any) -> None:
    output.run((), [{"message": "it took too long", "retryable": True}])
    text = page_of(output).text
    assert "Rows over time" in text
    assert "it took too long" in text
    assert "tried again by the next run" in text


def test_no_rows_at_all(output: Any) -> None:
    output.run()
    text = page_of(output).text
    assert "Rows ok 0 –" in text
    assert "Rows over time" not in text


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_text_as_the_answer(output: Any, format: str) -> None:
    output.run([{"output_text": "free"}], schema=None, format=format)
    assert "Answers" not in page_of(output).text


def test_all_rows_at_one_moment(output: Any) -> None:
    output.run([{"finished_at": "2026-01-31T08:00:00.000Z"}] * 3)
    assert "Rows over time" in page_of(output).text


def test_a_clock_that_was_wrong(output: Any) -> None:
    output.run([{}, {"finished_at": "1970-01-01T00:00:00.000Z"}, {"finished_at": "2262-01-01T00:00:00.000Z"}])
    output.run([{}], finished_at="2020-01-01T00:00:00.000Z")
    assert "took unknown" in page_of(output).text


def test_results_whose_accounts_are_gone(output: Any) -> None:
    Path(output.layout.account(output.run([{}] * 5))).unlink()
    text = page_of(output).text
    assert "Rows ok 5" in text
    assert "Left unknown" in text


def test_a_run_that_was_cut_short_is_named(output: Any) -> None:
    output.run([{}])
    (output.folder / "journal" / "20270101T000000-ffffff").mkdir(parents=True)
    assert "20270101T000000-ffffff: under way, or cut short" in page_of(output).text


def test_nothing_to_report_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"paidonce: {tmp_path / 'none'} holds no output of a run")
    assert error.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_a_broken_file_is_named(output: Any) -> None:
    output.run([{}])
    (output.folder / "results" / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"x\.parquet"):
        write_report(output.layout, str(output.page))
    assert not output.page.exists()


def test_where_it_goes(output: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output.run([{}])
    assert main([str(output.folder), "--output", str(tmp_path / "elsewhere" / "page.html")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'elsewhere' / 'page.html'}\n"
    assert Page(tmp_path / "elsewhere" / "page.html").tags["svg"]
    assert not output.page.exists()
    assert main([str(output.folder)]) == 0
    assert sorted(path.name for path in output.folder.iterdir()) == ["report.html", "results", "runs"]


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "--out", "x"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_goes_wrong_after_a_run_is_one_line(
    output: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(*_arguments: Any) -> None:
        raise RuntimeError("sk-abcdefghijklmnop1234\nis wrong")

    monkeypatch.setattr(write, "write_report", breaks)
    write_report_if_possible(output.layout)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("no report was written: ")
    assert "sk-abc" not in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_costs_the_report_alone(
    output: Any, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr(write, "write_report", lambda *_arguments: os.kill(os.getpid(), number))
    write_report_if_possible(output.layout)
    assert "no report was written: interrupted" in capsys.readouterr().err
    assert signal.getsignal(number) is before


def test_a_report_after_a_run_says_where_it_is(output: Any, capsys: pytest.CaptureFixture[str]) -> None:
    output.run([{}])
    after.write_report_if_possible(output.layout)
    assert capsys.readouterr().out == f"report:   {output.page}\n"
    assert output.page.exists()
