"""Texts and their placeholders."""

import pytest

from transforms.llm.template import Template

JSON_EXAMPLE = 'Label this text. Answer as {"label": "..."}.\n\nText: {text}\n'


@pytest.mark.parametrize(
    "text",
    [
        "use {name} and {0} and {text}",
        '{"k": 1}',
        "}{",
        "{{ 7*7 }} {% raw %} ${HOME} %s",
        r"\1 \g<0>",
        "{label}",
    ],
)
def test_data_is_inserted_as_it_is(text: str) -> None:
    expected = 'Label this text. Answer as {"label": "..."}.\n\nText: ' + text + "\n"
    assert Template(JSON_EXAMPLE).render({"text": text, "name": "no", "label": "no"}) == expected


def test_only_names_in_braces_are_placeholders() -> None:
    template = Template("{a} {{a}} {} {0} {a b} {a!r} {a:>3} { a } {größe} {a} {_b.c}")
    assert template.placeholders == ("a", "größe", "_b.c")
    rendered = template.render({"a": 1, "größe": "x", "_b": {"c": "y"}})
    assert rendered == "1 {1} {} {0} {a b} {a!r} {a:>3} { a } x 1 y"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        ("é\n", "é\n"),
        (3, "3"),
        (0.5, "0.5"),
        (True, "true"),
        ({"a": ["é", None]}, '{"a": ["é", null]}'),
        ([], "[]"),
    ],
)
def test_how_values_are_written(value: object, text: str) -> None:
    assert Template("[{x}]").render({"x": value}) == f"[{text}]"


def test_nested_values() -> None:
    template = Template("{product.name}/{product.maker.city}/{a.b}")
    fields = {"product": {"name": "n", "maker": None}, "a.b": "own name"}
    assert template.render(fields) == "n//own name"
    assert template.columns(["id", "a.b", "product"]) == ["product", "a.b"]


def test_a_missing_column_is_an_empty_text() -> None:
    assert Template("[{x}{y.z}]").render({}) == "[]"


def test_an_alias_stands_for_its_column_only() -> None:
    template = Template("{text} {title}", {"text": "review"})
    assert template.render({"review": "r", "text": "t", "title": "x"}) == "r x"
    assert template.columns(["review", "text", "title"]) == ["review", "title"]


def test_an_unknown_placeholder_is_named_with_the_columns() -> None:
    with pytest.raises(ValueError, match=r"\{txet\}.*did you mean \{text\}\?.*columns are: id, text"):
        Template("{txet}").check(["id", "text"])
    with pytest.raises(ValueError, match=r"\{text\} \(that is 'reviw'\).*did you mean \{review\}"):
        Template("{text}", {"text": "reviw"}).check(["id", "review"])
    with pytest.raises(ValueError, match=r"\{product\.name\}"):
        Template("{product.name}").check(["id"])


def test_a_prompt_without_placeholders() -> None:
    template = Template("say {this is} nothing")
    assert template.placeholders == ()
    assert template.render({"this": 1}) == "say {this is} nothing"
    template.check([])
