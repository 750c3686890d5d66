"""`ys init --example`: each sample is written once, and what it says to type works."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.cli.samples import SAMPLES, Example
from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.testing import run

#: What each says in the end.
ENDS = {
    Example.HELLO: '"Hello, Ann!"',
    Example.APPROVAL: '"done: buy a chair"',
    Example.FANOUT: '[1,4,9,16,25,36,"first/square#7 failed: ValueError: seven is not in the mood",'
    "64,81,100,121,144]",
    Example.CHARGE_ONCE: '"charged order-7 1250"',
}


@pytest.fixture
def empty(shop: Shop) -> Shop:
    (shop.root / "ys.toml").unlink()
    return shop


@pytest.mark.parametrize("example", list(Example))
def test_what_init_says_to_type_works(empty: Shop, example: Example) -> None:
    """The calls, one after the other, with the real command."""
    said = empty.process("init", "--example", example)

    typed = [line.removeprefix("Try:").split() for line in said.out.splitlines()[1:]]
    codes = [empty.process(*words[1:]).code for words in typed]
    shown = empty.process("show", "first", "--result")

    assert said.out.startswith(f"Made workflows/{SAMPLES[example].file} and ys.db.\n")
    assert [shlex.join(words) for words in typed] == list(SAMPLES[example].calls)
    assert set(codes) == {0}
    assert shown.out.strip() == ENDS[example]


def test_a_sample_goes_beside_what_is_there_and_again_is_harmless(empty: Shop) -> None:
    """Idempotent, each by itself."""
    empty.ys("init")
    added = empty.ys("init", "--example", "fanout")
    again = empty.ys("init", "--example", "fanout")

    assert added.out.startswith("Made workflows/fanout.py.\n")
    assert again.out.startswith("Nothing to do")
    assert sorted(path.name for path in (empty.root / "workflows").glob("*.py")) == [
        "fanout.py",
        "hello.py",
    ]


def test_a_sample_never_overwrites(empty: Shop) -> None:
    """Exit 6, nothing changed; another sample is no hindrance."""
    mine = empty.module("approval.py", "# mine\n")

    refused = empty.ys("init", "--example", "approval")
    other = empty.ys("init")

    assert refused.code == 6
    assert "approval.py is in the way" in refused.err
    assert mine.read_text() == "# mine\n"
    assert other.code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [(("--example", "agent"), "approval"), (("--bare", "--example", "fanout"), "--bare")],
)
def test_words_that_do_not_fit_are_two(empty: Shop, words: tuple[str, ...], named: str) -> None:
    """An unknown sample names those there are; nothing is made."""
    said = empty.ys("init", *words)

    assert said.code == 2
    assert named in said.err
    assert list(empty.root.iterdir()) == []


def test_an_approval_that_nobody_answers_ends_by_itself(tmp_path: Path) -> None:
    """In the test kit."""
    path = tmp_path / "approval.py"
    path.write_text(SAMPLES[Example.APPROVAL].text)
    spec = importlib.util.spec_from_file_location("sample_approval", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    approval = module.approval
    assert isinstance(approval, Workflow)

    assert run(approval).result == "nobody answered"
    assert run(approval, messages={"decision": {"ok": False, "by": "bob"}}).result == (
        "rejected by bob"
    )
