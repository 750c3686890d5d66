"""Where secrets and the environment do not end up, and what can be learnt of a masked value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import HELLO, Said, Shop
from tests.security.scene import Scene

SECRET = "hunter2-7d1f"
KEYS = ("api_key", "password", "Authorization", "dbPassword", "access-token")
SECRETIVE = """
from yieldstar_cli import Step, workflow


class Params(dict): ...


def fail(api_key: str) -> None:
    raise ValueError("the gateway said no")


@workflow
async def pay(step: Step, api_key: str, note: str = "") -> None:
    await step.run(fail, api_key)
"""


def told(lines: Sequence[Said]) -> str:
    return "".join(said.out + said.err for said in lines)


def test_no_reading_command_shows_a_person_a_secret_unasked(scene: Scene) -> None:
    """security S25; spec K6: in every value of every table, wherever a key looks secret."""
    held = json.dumps({**dict.fromkeys(KEYS, SECRET), "in": [{"token": SECRET}]})
    columns = [
        ("executions", "params"), ("executions", "context"), ("executions", "status_value"),
        ("messages", "value"), ("stores", "state"), ("effects", "input"),
        ("effects", "result"), ("effect_reports", "input"), ("effect_reports", "result"),
        ("incarnations", "params"),
    ]  # fmt: skip
    scene.plant(
        *(
            (f"UPDATE {table} SET {column} = planted(0) WHERE {rows}", lambda _: held)
            for table, column, rows in (
                *((table, column, f"{column} IS NOT NULL") for table, column in columns),
                # The others hold errors there, which have no keys of their own.
                ("history", "value", "ok AND kind = 'step'"),
                ("executions", "outcome", "status = 'completed'"),
            )
        )
    )

    shown = [
        said
        for line, how, said in scene.said()
        if "--reveal" not in line and (how == "screen" or line[0] in ("list", "doctor"))
        if (line[0], how) != ("list", "json")
    ]

    assert len(shown) > 50
    assert "****" in told(shown)
    assert SECRET not in told(shown)
    assert SECRET in scene.shop.screen("show", "order-44", "--reveal").out


def test_a_worker_and_the_errors_of_a_trigger_tell_no_params(shop: Shop) -> None:
    """security S25: neither in its log, however much it says, nor in what was refused."""
    shop.module("pay.py", SECRETIVE)
    given = ("-p", f"api_key={SECRET}", "-p", f"note={SECRET}")

    said = [shop.process("trigger", "pay", "--id", "a", *given) for _ in range(2)]
    said += [shop.process("trigger", "pay", "--id", "b", *given, "-p", "more=1")]
    said += [shop.process("trigger", "pai", "--id", "b", *given)]
    said += [shop.process("trigger", "pay", "--idd", "b", *given)]
    said += [shop.process("-v", "--debug", "worker", "--until-idle", "--for", "pay")]
    said += [shop.process("-v", "worker", "--until-idle"), shop.ys("list", "--header")]

    assert [one.code for one in said[:5]] == [0, 3, 5, 4, 2]
    assert shop.ys("show", "a", "--json").json["status"] == "failed"
    assert SECRET not in told(said)


def test_a_secret_from_stdin_is_in_no_list_of_processes(shop: Shop) -> None:
    """security S25: not in the command line of `ys`, nor of anything that it starts."""
    shop.module("charge_order.py", HELLO)
    command = [sys.executable, "-m", "yieldstar_cli", "trigger", "charge-order", "--params", "-"]
    process = subprocess.Popen(
        command, cwd=shop.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(f'{{"order": 1, "note": "{SECRET}"')
    process.stdin.flush()

    # A process that has just begun has no command line for a moment.
    while not readable(Path(f"/proc/{process.pid}/cmdline")):
        assert process.poll() is None, process.communicate()
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if readable(path)]
    process.stdin.write("}")
    process.communicate()

    assert process.returncode == 0
    assert any(b"charge-order" in line for line in lines)
    assert not any(SECRET.encode() in line for line in lines)


def readable(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def test_the_environment_is_neither_stored_nor_told(shop: Shop) -> None:
    """security S26: after a failed step, a held execution and a broken module."""
    shop.module("pay.py", SECRETIVE)
    shop.module("broken.py", "raise ValueError('no')\n")
    env = {"A_SECRET_OF_THE_SHELL": SECRET}

    said = [
        shop.process("trigger", "pay", "--id", "a", "-p", "api_key=k", env=env),
        shop.process("-v", "worker", "--until-idle", env=env),
        shop.process("show", "a", "--json", env=env),
        shop.process("doctor", "--json", env=env),
    ]
    stored = b"".join(path.read_bytes() for path in shop.root.glob("ys.db*"))

    assert "the gateway said no" in told(said)
    assert SECRET not in told(said)
    assert SECRET.encode() not in stored
    assert os.environ["PATH"].encode() not in stored


# --- guesses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [True, False])
def test_a_masked_value_cannot_be_guessed_at(shop: Shop, machine: bool) -> None:
    """security S42: a conflict has the same status and words for a right guess and a wrong one."""
    shop.module("pay.py", SECRETIVE)
    call = shop.ys if machine else shop.screen
    words = ("trigger", "pay", "--id", "order-42", "-p", "note=n")
    assert shop.ys(*words, "-p", f"api_key={SECRET}").code == 0
    more = ("--json",) if machine else ()

    right = call(*words, "-p", f"api_key={SECRET}", *more)
    wrong = call(*words, "-p", "api_key=guess", *more)

    assert right.code == 3
    assert right == wrong
    assert "the same params, secret ones aside" in " ".join(right.err.split())


def test_that_other_params_differ_is_still_said(shop: Shop) -> None:
    """security S42; case 5: of those that are no secret."""
    shop.module("pay.py", SECRETIVE)
    words = ("trigger", "pay", "--id", "order-42")
    shop.ys(*words, "-p", f"api_key={SECRET}", "-p", "note=n")

    said = shop.screen(*words, "-p", "api_key=guess", "-p", "note=m")

    assert "with other params (note differs)" in " ".join(said.err.split())


def test_a_mask_does_not_tell_how_long_a_value_is(shop: Shop) -> None:
    """security S42."""
    shop.admit("order-1", params={"api_key": "k"})
    shop.admit("order-2", params={"api_key": "k" * 40})

    first, second = (shop.screen("show", f"order-{number}").out for number in (1, 2))

    assert first == second.replace("order-2", "order-1")
    assert "****" in first
