"""What a plugin for haptic is written with: files and their lines, positions, reports and configs.

Nothing here needs WebAssembly, so a plugin can be tested natively on files in memory: see tests/.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Iterator, Protocol

# How much `lines` reads at once.
CHUNK_BYTES = 64 << 10

# Lists and objects inside each other that a filter's argument may have. Reading more would overflow the stack.
MAX_DEPTH = 100
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


class ConfigError(Exception):
    """The config is wrong. Say which field is, and what would be right; haptic then refuses to load the plugin."""


class PluginError(Exception):
    """The plugin cannot answer. It says nothing about the input: what is wrong with the input is a finding."""


class Refused(Exception):
    """For filters: this value or these arguments are wrong. Only what was being rendered with them is left out."""


class Failed(Exception):
    """For filters: the plugin cannot answer, whatever the arguments. The render fails."""


class Handle(Protocol):
    """A file of the contract, which haptic holds: a fake of it needs these four methods."""

    def path(self) -> str: ...

    def size(self) -> int: ...

    def read_all(self) -> bytes: ...

    def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True)
class Position:
    """A place in a file. Lines count from 1, columns in bytes from 1; 0 = unknown."""

    path: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Finding:
    """One thing that was found."""

    position: Position
    message: str


@dataclass
class Report:
    """A validator's answer. The verdict follows from what was found."""

    warnings: list[Finding] = field(default_factory=list)
    errors: list[Finding] = field(default_factory=list)

    def error(self, position: Position, message: str) -> None:
        """Adds something that must stop publication. Say what is wrong and what to do."""
        self.errors.append(Finding(position, message))

    def warn(self, position: Position, message: str) -> None:
        """Adds something that should be seen but stops nothing."""
        self.warnings.append(Finding(position, message))

    @property
    def verdict(self) -> str:
        """`valid`, `warning` or `error`."""
        return "error" if self.errors else "warning" if self.warnings else "valid"


class File:
    """A rendered file. Its content stays with haptic until it is read: read a range where that is enough."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.path = handle.path()

    @property
    def size(self) -> int:
        """In bytes. Costs nothing."""
        return self._handle.size()

    def read_all(self) -> bytes:
        """The whole content; any bytes."""
        return self._handle.read_all()

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`: fewer, or none, where the file ends before."""
        return self._handle.read(offset, length)

    def whole(self) -> Position:
        """The file as a whole, with no position in it."""
        return Position(self.path)

    def position(self, content: bytes, offset: int) -> Position:
        """Line and column of the byte at `offset` of `content`, which is this file's content."""
        before = content[: max(offset, 0)]
        return Position(self.path, before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1)


@dataclass(frozen=True)
class Line:
    """One line of a file, without its line feed. A carriage return before it is part of the text."""

    file: File
    number: int
    text: bytes

    def at(self, index: int) -> Position:
        """The place of the byte at `index` of the text."""
        return Position(self.file.path, self.number, index + 1)


def lines(file: File) -> Iterator[Line]:
    """The lines of a file, holding no more than a piece and the current line. Nothing after the last LF is no line."""
    number, offset = 0, 0
    # What the current line has so far, one part for each piece.
    begun: list[bytes] = []
    while piece := file.read(offset, CHUNK_BYTES):
        offset += len(piece)
        first, *others = piece.split(b"\n")
        begun.append(first)
        for text in others:
            number += 1
            yield Line(file, number, b"".join(begun))
            begun = [text]
    if rest := b"".join(begun):
        yield Line(file, number + 1, rest)


@dataclass(frozen=True)
class AuxiliaryFile:
    """What an auxiliary-file validator is asked."""

    file: File
    # All files that the `dataFiles` globs match, sorted by path.
    data_files: list[File]
    # Seconds since the Unix epoch: the only clock there is.
    now: int


@dataclass(frozen=True)
class RenderedOutput:
    """What a rendered-output validator is asked."""

    # `haproxy.cfg`, byte for byte as HAProxy would load it.
    config: File
    # Every other rendered file, sorted by path.
    files: list[File]
    # Seconds since the Unix epoch: the only clock there is.
    now: int


def options(config: Any, **defaults: Any) -> SimpleNamespace:
    """The fields of a config, each with its default. A field that has none is refused, and so is another type."""
    if not isinstance(config, dict):
        raise ConfigError(f"the config must be an object, not {json.dumps(config)}")
    for name, value in config.items():
        if name not in defaults:
            known = [f"`{known}`" for known in defaults]
            expected = known[0] if len(known) == 1 else f"one of {', '.join(known)}"
            raise ConfigError(f"unknown field `{name}`, expected {expected}")
        if type(value) is not type(defaults[name]):
            raise ConfigError(f"`{name}` must be of the kind of {json.dumps(defaults[name])}, not {json.dumps(value)}")
    return SimpleNamespace(**(defaults | config))


def read_json(text: str) -> Any:
    """For filters: an argument. What is nested too deep is refused, and not a trap."""
    if text.count("[") + text.count("{") > MAX_DEPTH:
        depth = 0
        for token in _JSON_TOKEN.finditer(text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
            if depth > MAX_DEPTH:
                raise Refused(f"an argument is nested deeper than {MAX_DEPTH}")
    return json.loads(text)


def bind(parameters: list[str], positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """For filters: gives each parameter its argument, by place or by name. What is not given is not in the answer."""
    if len(positional) > len(parameters):
        raise Refused(f"it takes at most {len(parameters)} arguments, but has {len(positional)}")
    bound = dict(zip(parameters, positional))
    for name, value in named.items():
        if name not in parameters:
            known = ", ".join(f"`{known}`" for known in parameters) or "none"
            raise Refused(f"it has no parameter `{name}`; known: {known}")
        if name in bound:
            raise Refused(f"`{name}` is given twice")
        bound[name] = value
    return bound


def place(error: Exception) -> str:
    """Where an exception that nobody expected was raised, and its words."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}" if trace else "an unknown place"
    return f"{where}: {type(error).__name__}: {error}"
