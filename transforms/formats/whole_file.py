"""Files that are a record each, with the columns path and text. The path is as input.path spells it."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.formats.lines import cut_message, open_text
from transforms.formats.spans import Cut, InputFile, Located, Reading, Span
from transforms.parse import REPLACEMENT, BadRow, identified, is_clean, replaced
from transforms.unpack import Damaged

MAX_CHARS = 16 * 1024 * 1024  # of one file: it is in memory as a whole


def columns(_item: InputFile, _reading: Reading) -> list[str]:
    """The two columns."""
    return ["path", "text"]


def split(item: InputFile, _length: int, _reading: Reading) -> Iterator[Span]:
    """A file is a span."""
    yield Span(item.path, item.number, 0, None, item.format)


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """One row."""
    id_column = reading.id_in(span.format)
    stream, encoding = open_text(span.path, reading.encoding)
    path = replaced(span.path)
    with stream:
        try:
            text = stream.read(MAX_CHARS + 1)
        except Damaged as error:
            yield Cut(0, cut_message(error))
            return
    if len(text) > MAX_CHARS:
        yield Located(0, BadRow("bad_record", f"a file of more than {MAX_CHARS:,} characters", {"path": path}))
    elif not is_clean(text):
        message = f"not {encoding.name}: bytes that are no character, in their place stands {REPLACEMENT}"
        yield Located(0, BadRow("bad_encoding", message, {"path": path, "text": replaced(text)}))
    else:
        fields = {"path": path, "text": text}
        yield Located(0, identified(fields, id_column, fields.get(id_column or "")))
