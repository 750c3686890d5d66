"""Help: every command is documented, and no page names what is not built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.cli import exits
from yieldstar_cli.cli.app import build
from yieldstar_cli.cli.options import global_options
from yieldstar_cli.cli.topics import SUMMARIES, TOPICS
from yieldstar_cli.cli.verbs import ACTIONS, GROUPS, NAMES, VERBS

#: What is planned and not built: no page may name it as something to type.
NOT_BUILT = frozenset(
    "watch logs stats top replay export retry schedule dev lint "  # noqa: SIM905
    "serve config".split()
)

#: Verb and action, of the verbs that have some.
ALL_ACTIONS = [(verb, action.name) for verb in ACTIONS for action in ACTIONS[verb]]


def test_ys_alone_prints_eight_lines(shop: Shop) -> None:
    said = shop.ys()

    assert said.code == 0
    assert len(said.out.splitlines()) == 8


@pytest.mark.parametrize("words", [("--help",), ("-h",)])
def test_the_help_page_lists_every_command_in_its_group(shop: Shop, words: tuple[str, ...]) -> None:
    out = shop.ys(*words).out

    for group in GROUPS:
        assert f"{group}:" in out
    for verb in VERBS:
        assert re.search(rf"^  {verb.name} +{re.escape(verb.summary)}$", out, re.MULTILINE), verb


@pytest.mark.parametrize("name", NAMES)
def test_every_page_begins_with_two_examples_and_names_its_exit_statuses(
    shop: Shop, name: str
) -> None:
    for words in ((name, "--help"), (name, "-h"), ("help", name)):
        said = shop.ys(*words)
        lines = said.out.splitlines()
        assert said.code == 0
        assert f"ys {name}" in lines[0] or "| ys" in lines[0]
        assert f"ys {name}" in lines[1]
        assert lines[2] == ""
        assert "Exit status:" in said.out
        assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize(("name", "action"), ALL_ACTIONS)
def test_every_action_has_a_page_like_that_of_a_verb(shop: Shop, name: str, action: str) -> None:
    (summary,) = [found.summary for found in ACTIONS[name] if found.name == action]

    for words in ((name, action, "--help"), (name, action, "-h"), ("help", name, action)):
        said = shop.ys(*words)
        lines = said.out.splitlines()
        assert said.code == 0
        assert lines[0].startswith(f"ys {name} {action}")
        assert lines[1].startswith(f"ys {name} {action}")
        assert lines[2:4] == ["", summary]
        assert f"Usage: ys {name} {action} [OPTIONS]" in said.out
        assert "Exit status:" in said.out
        assert all(len(line) <= 80 for line in lines)
    assert f"  {action} " in shop.ys("help", name).out
    assert summary in shop.ys("help", name).out
    for param in build(name, action).params:
        assert getattr(param, "hidden", False) or getattr(param, "help", None), param.name


def test_an_action_that_is_misspelt_names_the_nearest_and_runs_none(shop: Shop) -> None:
    """b.0: no abbreviation, no guess."""
    near = shop.ys("store", "gett", "Stock", "left=secret")
    none = shop.ys("store", "zzz")
    alone = shop.ys("store")
    page = shop.ys("help", "store", "gett")
    no_actions = shop.ys("help", "show", "get")

    assert [said.code for said in (near, none, alone, page, no_actions)] == [2] * 5
    assert "Did you mean get?" in near.err
    assert "→ ys store get Stock left=…" in near.err
    assert "secret" not in near.err
    assert "it has list, get, watch, set, patch, delete" in none.err
    assert "which action?" in alone.err
    assert "ys help store" in page.err
    assert "ys help show" in no_actions.err


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: str(verb.name))
def test_the_summary_is_the_first_line_of_the_page(shop: Shop, verb: object) -> None:
    command = build(verb.name)  # type: ignore[attr-defined]

    assert (command.help or "").partition("\n")[0] == verb.summary  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_help_text(name: str) -> None:
    for param in build(name).params:
        assert getattr(param, "hidden", False) or getattr(param, "help", None), (name, param.name)


def test_the_pages_speak_of_no_x_and_no_braces(shop: Shop) -> None:
    """What the parser would add about ranges and required words is no help to a reader."""
    pages = [shop.ys("--help").out, *(shop.ys("help", name).out for name in NAMES)]

    assert not [line for page in pages for line in page.splitlines() if "x>=" in line]
    assert "Usage: ys trigger [OPTIONS] WORKFLOW\n" in shop.ys("help", "trigger").out
    assert max(len(line) for line in shop.ys("help").out.splitlines()) <= 80


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_begins_with_two_examples_and_fits_eighty_columns(
    shop: Shop, topic: str
) -> None:
    said = shop.ys("help", topic)
    lines = said.out.splitlines()

    assert said.code == 0
    assert lines[0].startswith("ys ")
    assert lines[1].startswith("ys ")
    assert all(len(line) <= 80 for line in lines)
    assert topic in SUMMARIES


def test_no_page_names_a_command_that_is_not_built(shop: Shop) -> None:
    pages = [shop.ys().out, shop.ys("--help").out, shop.ys("help").out]
    pages += [shop.ys("help", name).out for name in (*NAMES, *TOPICS)]

    for page in pages:
        for name in re.findall(r"\bys ([a-z]+)\b", page):
            assert name not in NOT_BUILT, name


def test_no_source_of_the_command_names_one_that_is_not_built() -> None:
    """Hints and remedies too."""
    import yieldstar_cli.cli

    for path in Path(yieldstar_cli.cli.__file__).parent.rglob("*.py"):
        for name in re.findall(r"\bys ([a-z]+)\b", path.read_text()):
            assert name not in NOT_BUILT, (path.name, name)


def test_the_reference_documents_every_command_option_and_exit_status() -> None:
    """docs/commands.md is held to the program."""
    text = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    sections = dict(re.findall(r"^### `ys (\w+).*?`$(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL))

    assert set(sections) == set(NAMES)
    for name, action in (*((name, None) for name in NAMES), *ALL_ACTIONS):
        assert action is None or f"`{action} " in sections[name]
        for param in build(name, action).params:
            if param.param_type_name == "option" and not param.hidden and "--id" not in param.opts:
                for option in param.opts:
                    assert f"`{option}" in sections[name], (name, option)
    for param in global_options(hidden=False):
        for option in param.opts:
            assert f"`{option}" in text, option
    for code, meaning in exits.TABLE:
        assert f"| {code} | {meaning} |" in text
    for name in re.findall(r"\bys ([a-z]+)\b", text):
        assert name not in NOT_BUILT, name


def test_the_exit_codes_are_a_page(shop: Shop) -> None:
    out = shop.ys("help", "exit-codes").out

    for code in (*range(12), 130, 143):
        assert re.search(rf"^ +{code}  \S", out, re.MULTILINE), code


def test_the_version_is_printed(shop: Shop) -> None:
    import yieldstar_cli

    assert shop.ys("--version").out == f"ys {yieldstar_cli.__version__}\n"
    assert shop.ys("list", "--version").out == f"ys {yieldstar_cli.__version__}\n"
