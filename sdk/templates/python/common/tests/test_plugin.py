"""Runs the plugin natively: on the cases, and on whatever you add."""

import json
import sys
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "src"))

import haptic_plugin  # noqa: E402
import plugin  # noqa: E402


class MemoryFile:
    """A fake of the contract's file, with its content in memory."""

    def __init__(self, path: str, content: bytes) -> None:
        self._path, self._content = path, content

    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._content)

    def read_all(self) -> bytes:
        return self._content

    def read(self, offset: int, length: int) -> bytes:
        return self._content[offset : offset + length]


def file(path: str, content: bytes) -> haptic_plugin.File:
    return haptic_plugin.File(MemoryFile(path, content))


def report(case: dict, folder: Path) -> dict:
    """What a validator says about a case."""
    root = folder / "files"
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    subject = case.get("file", "haproxy.cfg")
    checked = file(subject, files.pop(subject))
    others = [file(path, content) for path, content in files.items()]
    request = haptic_plugin.AuxiliaryFile if "file" in case else haptic_plugin.RenderedOutput
    try:
        validator = plugin.Validator(case.get("config", {}))
    except haptic_plugin.ConfigError as error:
        return {"config_refused": str(error)}
    answer = validator.validate(request(checked, others, case.get("now", 0)))

    def plain(findings: list[haptic_plugin.Finding]) -> list[dict]:
        return [vars(finding.position) | {"message": finding.message} for finding in findings]

    return {"result": answer.verdict, "warnings": plain(answer.warnings), "errors": plain(answer.errors)}


def answer(config: dict, call: dict) -> dict:
    """What a filter answers to a call."""
    try:
        apply = getattr(plugin.Filters(config), call["filter"])
        return {"answer": apply(call["value"], call.get("positional", []), call.get("named", {}))}
    except haptic_plugin.Refused as error:
        return {"refused": str(error)}
    except haptic_plugin.Failed as error:
        return {"failed": str(error)}


class Cases(unittest.TestCase):
    maxDiff = None

    def test_cases(self) -> None:
        paths = sorted((PROJECT / "cases").glob("*/case.json"))
        self.assertTrue(paths, "there are cases")
        for path in paths:
            case = json.loads(path.read_text())
            with self.subTest(case["description"]):
                if "calls" not in case:
                    self.assertEqual(report(case, path.parent), case["expect"])
                for call in case.get("calls", []):
                    self.assertEqual(answer(case.get("config", {}), call), call["expect"])


class Lines(unittest.TestCase):
    def split(self, content: bytes) -> list[tuple[int, bytes]]:
        return [(line.number, line.text) for line in haptic_plugin.lines(file("f", content))]

    def test_a_last_line_may_have_no_line_feed(self) -> None:
        self.assertEqual(self.split(b""), [])
        self.assertEqual(self.split(b"\n"), [(1, b"")])
        self.assertEqual(self.split(b"a\r\n\nb"), [(1, b"a\r"), (2, b""), (3, b"b")])

    def test_a_line_may_be_longer_than_what_is_read_at_once(self) -> None:
        long = b"x" * 200_000
        self.assertEqual(self.split(long + b"\n" + long), [(1, long), (2, long)])

    def test_a_line_feed_may_be_the_first_or_the_last_byte_of_what_is_read_at_once(self) -> None:
        for length in [65_535, 65_536, 131_071, 131_072]:
            long = b"x" * length
            self.assertEqual(self.split(long + b"\n"), [(1, long)])
            self.assertEqual(self.split(long + b"\n\ny"), [(1, long), (2, b""), (3, b"y")])

    def test_a_line_may_be_as_long_as_a_file_may_be(self) -> None:
        long = b"x" * ((32 << 20) - 2)
        self.assertEqual([len(text) for _, text in self.split(long + b"\ny")], [len(long), 1])

    def test_an_offset_becomes_line_and_column(self) -> None:
        place = file("f", b"").position
        self.assertEqual(place(b"ab\ncd\n", 2), haptic_plugin.Position("f", 1, 3))
        self.assertEqual(place(b"ab\ncd\n", 3), haptic_plugin.Position("f", 2, 1))
        self.assertEqual(place(b"ab\ncd\n", 600), haptic_plugin.Position("f", 3, 1))


if __name__ == "__main__":
    unittest.main()
