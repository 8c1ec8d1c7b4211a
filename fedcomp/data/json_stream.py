"""Reads JSON piece by piece: of a file of gigabytes, memory holds one value at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from fedcomp.data.errors import MalformedData, TruncatedData

_CHUNK = 1 << 16
_DECODER = json.JSONDecoder()
_LONGEST = 1 << 26
_SPACE = " \t\n\r"
_NUMERIC = "0123456789.eE+-"
_SLACK = 16  # an unfinished number, word or escape is shorter


class JsonStream:
    """A JSON text from which objects and arrays are entered and values taken.

    ``for key in stream.keys()`` stands at the value of each key in turn, ``for _ in stream.items()`` at each element of
    an array; the body of the loop must take that value, by :meth:`value` or by another loop.

    All methods raise TruncatedData when the text ends too early and MalformedData when it is not JSON, or not of the
    form asked for; both name the file.
    """

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._text = ""
        self._at = 0
        self._before = 0  # characters that came before self._text
        self._ended = False

    def keys(self) -> Iterator[str]:
        """Enter an object: yield each key, standing at its value."""
        for _ in self._members("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise self._malformed("a key in double quotes")
            self._expect(":")
            yield key

    def items(self) -> Iterator[None]:
        """Enter an array: yield once an element, standing at it."""
        return self._members("[", "]")

    def value(self) -> Any:
        """Take a whole value: what :func:`json.loads` would return for it."""
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _SLACK
                if self._ended and unfinished:
                    raise self._truncated() from error
                if not unfinished:
                    self._at = error.pos
                    raise self._malformed("JSON") from error
            except RecursionError as error:
                raise self._malformed("JSON that is not nested so deeply") from error
            else:
                # A number may go on in the next piece: of "1.5" the first may end with "1" or "1.".
                if self._ended or self._text[end : end + _SLACK].strip(_NUMERIC):
                    self._at = end
                    return value
            if len(self._text) - self._at > _LONGEST:
                raise self._malformed(f"a value of at most {_LONGEST} characters")
            self._fill(max(_CHUNK, len(self._text) - self._at))

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self._skip_space():
            raise self._malformed("the end of the file")

    def _members(self, opening: str, closing: str) -> Iterator[None]:
        self._expect(opening)
        if self._peek() == closing:
            self._at += 1
            return
        while True:
            yield
            if self._peek() == closing:
                self._at += 1
                return
            self._expect(",")

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._malformed(repr(character))
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is no space, without taking it."""
        if not self._skip_space():
            raise self._truncated()
        return self._text[self._at]

    def _skip_space(self) -> bool:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return True
            if self._ended:
                return False
            self._fill(_CHUNK)

    def _fill(self, count: int) -> None:
        try:
            more = self._file.read(count)
        except UnicodeDecodeError as error:
            raise MalformedData(f"{self._path} is not UTF-8 text ({error}); get it again") from error
        self._ended = not more
        self._before += self._at
        self._text = self._text[self._at :] + more
        self._at = 0

    def _truncated(self) -> TruncatedData:
        length = self._before + len(self._text)
        return TruncatedData(f"{self._path} ends too early, after {length} characters; get it again")

    def _malformed(self, expected: str) -> MalformedData:
        found = self._text[self._at : self._at + 20]
        place = self._before + self._at
        return MalformedData(f"{self._path}, character {place}: {found!r}; expected {expected}")
