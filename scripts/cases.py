"""Writes the tables case number → tests and rule → files of tests in tests/README.md.

The tests' docstrings cite cases; a `CASES.md` in a folder of tests may name more of them.
`make cases` runs it; `--check` changes nothing and fails where the table is not current.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "tests" / "README.md"
#: The conformance rows, which adapters of others run too, and what a CASES.md calls them.
CONFORMANCE = ROOT / "yieldstar_cli" / "testing" / "conformance"
#: Where tests live.
PLACES = (ROOT / "tests", CONFORMANCE)
#: The cases of what is built: the others belong to what comes later.
DUE = ("1-348", "350-360", "B01-B101")
#: The rules of the contract that have a test each; of the others none is built yet.
RULES = (
    "E1-E14",
    "L1-L5",
    "R1-R12",
    "O1-O7",
    "C1-C7",
    "M1-M4",
    "S1-S7",
    "F1",
    "V1-V4",
    "K1-K10",
)
#: In tests/README.md, by hand: case or rule, and what it waits for.
WAITING = "### Cases that wait"
BEGIN = "<!-- cases: written by `make cases` -->"
END = "<!-- end of cases -->"
#: The cases of security that are due; the others belong to HTTP, packages and erasing.
DUE_SECURITY = ("S1-S26", "S39", "S41-S42")

_NUMBER = r"[A-Z]?\d+"
_SPAN = rf"{_NUMBER}(?:\s*(?:-|–|to)\s*{_NUMBER})?"
#: "case 39", "cases 13, 14 and B96", "cases 113-115, 125-130".
_CITED = re.compile(rf"\bcases?\s+({_SPAN}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){_SPAN})*)\b")
_PARTS = re.compile(rf"({_NUMBER})(?:\s*(?:-|–|to)\s*({_NUMBER}))?")
#: The reports of other engines' users are also cited alone: "B21: …".
_REPORT = re.compile(r"\bB\d{2,3}\b")


#: "spec E9", "spec R4, R10", "spec L2; case 5".
_RULED = re.compile(r"\b[Ss]pec\s+([A-Z]\d+(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*-\s*)[A-Z]\d+)*)")


def rules_cited(text: str) -> set[str]:
    """The rules of the contract that `text` cites; a span stands for all in it."""
    return _spans(_RULED, text)


#: "security S9", "security S19-S22, S25".
_SECURED = re.compile(r"\b[Ss]ecurity\s+(S\d+(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*-\s*)S\d+)*)")


def security_cited(text: str) -> set[str]:
    """The cases of security that `text` cites; a span stands for all in it."""
    return _spans(_SECURED, text)


def _spans(pattern: re.Pattern[str], text: str) -> set[str]:
    found: set[str] = set()
    for match in pattern.finditer(text):
        for span in re.findall(r"[A-Z]\d+(?:\s*-\s*[A-Z]\d+)?", match.group(1)):
            first, _, last = (word.strip() for word in span.partition("-"))
            found |= set(_span(first, last or first))
    return found


def cited(text: str) -> set[str]:
    """The case numbers that `text` cites; a span stands for all in it."""
    found = set(_REPORT.findall(text))
    for match in _CITED.finditer(text):
        for first, last in _PARTS.findall(match.group(1)):
            found |= set(_span(first, last or first))
    return found


def _span(first: str, last: str) -> Iterator[str]:
    letter = first.rstrip("0123456789")
    low, high = int(first[len(letter) :]), int(last.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    width = len(first) - len(letter) if letter else 1
    for number in range(low, high + 1):
        yield f"{letter}{number:0{width}d}"


def citing(
    read: Callable[[str], set[str]] = cited, *, tests_alone: bool = False
) -> Iterator[tuple[str, set[str]]]:
    """Every test, or file or class of tests, and what it cites as `read` reads it."""
    for place in PLACES:
        for path in sorted(place.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            name = path.relative_to(place).as_posix()
            if not tests_alone:
                yield name, read(ast.get_docstring(tree) or "")
            for node in ast.walk(tree):
                if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                is_test = node.name.startswith("test_")
                if is_test or (isinstance(node, ast.ClassDef) and not tests_alone):
                    yield f"{name}::{node.name}", read(ast.get_docstring(node) or "")


def listed() -> Iterator[tuple[str, str]]:
    """What the CASES.md files say: case, and the test that holds it.

    Raises LookupError for a test that is not where it is said to be.
    """
    for page in sorted((ROOT / "tests").rglob("CASES.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            row = _ROW.fullmatch(line)
            for place, test in _HELD.findall(row.group(2)) if row else ():
                yield row.group(1), _found(page.parent, place, test)


_ROW = re.compile(r"\|\s*([A-Z]?\d+)\s*\|(.*)\|")
_HELD = re.compile(r"([\w/]+) `(\w+)`")


def _found(folder: Path, place: str, test: str) -> str:
    paths = CONFORMANCE.glob("*.py") if place == "conformance" else [folder / f"{place}.py"]
    for path in paths:
        if path.exists() and f"def {test}(" in path.read_text(encoding="utf-8"):
            root = CONFORMANCE if place == "conformance" else ROOT / "tests"
            return f"{path.relative_to(root).as_posix()}::{test}"
    raise LookupError(f"{folder.name}/CASES.md: there is no {test} in {place}")


def _order(number: str) -> tuple[str, int]:
    letter = number.rstrip("0123456789")
    return letter, int(number[len(letter) :])


def case_tests() -> dict[str, set[str]]:
    """Each case that is cited, and its tests."""
    where: dict[str, set[str]] = {}
    for name, numbers in (*citing(), *((name, {number}) for number, name in listed())):
        for number in numbers:
            where.setdefault(number, set()).add(name)
    return where


def rule_files() -> dict[str, set[str]]:
    """Each rule that the docstring of a test cites, and the files of its tests."""
    return _files(rules_cited)


def _files(read: Callable[[str], set[str]]) -> dict[str, set[str]]:
    where: dict[str, set[str]] = {}
    for name, rules in citing(read, tests_alone=True):
        for rule in rules:
            where.setdefault(rule, set()).add(name.partition("::")[0].removesuffix(".py"))
    return where


def security_files() -> dict[str, set[str]]:
    """Each case of security that the docstring of a test cites, and the files of its tests."""
    return _files(security_cited)


def missing_security() -> list[str]:
    """The cases of security that are due and that no test cites."""
    found = security_files()
    return [case for case in due(DUE_SECURITY) if case not in found]


def missing() -> list[str]:
    """The cases and rules that are due, that no test cites and that wait for nothing."""
    later = waiting(README.read_text(encoding="utf-8"))
    cases, rules = case_tests(), rule_files()
    found = [number for number in due() if number not in cases]
    found += [rule for rule in due(RULES) if rule not in rules]
    return [one for one in found if one not in later]


def table() -> str:
    """Both tables as Markdown, and which of what is due no test cites."""
    cases, rules = case_tests(), rule_files()
    lines = ["| case | tests |", "|---|---|"]
    lines += [
        f"| {number} | {'<br>'.join(f'`{name}`' for name in sorted(cases[number]))} |"
        for number in sorted(cases, key=_order)
    ]
    lines += ["", "| rule | files of its tests |", "|---|---|"]
    lines += [
        f"| {rule} | {', '.join(f'`{name}`' for name in sorted(rules[rule]))} |"
        for rule in due(RULES)
        if rule in rules
    ]
    secured = security_files()
    lines += ["", "| security | files of its tests |", "|---|---|"]
    lines += [
        f"| {case} | {', '.join(f'`{name}`' for name in sorted(secured[case]))} |"
        for case in sorted(secured, key=_order)
    ]
    lines += ["", f"Of security cited by no test: {', '.join(missing_security()) or 'none'}."]
    lines += ["", f"Cited by no test, and not waiting either: {', '.join(missing()) or 'none'}."]
    return "\n".join(lines)


def waiting(text: str) -> dict[str, str]:
    """What the README `text` says to wait: case or rule, and for what."""
    _, _, after = text.partition(WAITING)
    rows = (_ROW.fullmatch(line) for line in after.partition(BEGIN)[0].splitlines())
    return {row.group(1): row.group(2).strip() for row in rows if row}


def due(spans: Sequence[str] = DUE) -> Iterator[str]:
    """The numbers of the cases that are due, or the rules."""
    for span in spans:
        first, _, last = span.partition("-")
        yield from _span(first, last or first)


def written(text: str) -> str:
    """The README `text` with the current table in it."""
    before, found, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    if not found or END not in rest:
        raise SystemExit(f"{README} lacks the two lines that mark the table")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main(words: list[str]) -> int:
    """Write the table, or with `--check` compare it."""
    text = README.read_text(encoding="utf-8")
    current = written(text)
    if words == ["--check"]:
        if text != current:
            print("tests/README.md is not current; run: make cases", file=sys.stderr)
        return int(text != current)
    README.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
