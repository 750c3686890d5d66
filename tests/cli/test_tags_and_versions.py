"""What the command line says of tags and versions (spec O5, R11)."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.model import Suspended

MODULE = '''
from yieldstar_cli import Step, workflow


@workflow(id="fit-model")
async def first(step: Step, rows: int = 1) -> int:
    """Fit a model, the old way."""
    return rows


@workflow(version=2, tags={"ssd", "gpu"})
async def fit_model(step: Step, rows: int = 2) -> int:
    """Fit a model."""
    return rows
'''


@pytest.fixture
def models(shop: Shop) -> Shop:
    """A project with two versions of one workflow."""
    shop.module("models.py", MODULE)
    return shop


def test_a_workflow_is_described_with_the_worker_that_runs_it(models: Shop) -> None:
    """spec O5: the tags and the words that start such a worker, of the latest version."""
    drawn = models.screen("workflows", "fit-model")
    document = models.ys("workflows", "fit-model", "--json").json

    assert drawn.out.startswith("fit-model version 2  ")
    assert "  tags    run by ys worker --tag gpu --tag ssd\n" in drawn.out
    assert (document["version"], document["tags"]) == (2, ["gpu", "ssd"])


def test_a_list_of_workflows_has_every_version(models: Shop) -> None:
    """spec R11: the latest first, each with its tags."""
    listed = models.ys("workflows", "--json").json

    assert [(info["version"], info["tags"]) for info in listed] == [(2, ["gpu", "ssd"]), (1, [])]
    assert "fit-model v2" in models.screen("workflows").out


def test_a_trigger_by_name_takes_the_latest_version(models: Shop) -> None:
    """case 137; spec R11: with that version's defaults."""
    triggered = models.ys("trigger", "fit-model", "--id", "a", "--json")

    assert triggered.json["version"] == 2
    record = models.storage.executions.get("a")
    assert record is not None
    assert (record.version, record.params) == (2, {"rows": 2})


def test_show_tells_the_version_where_it_is_not_the_first(models: Shop) -> None:
    """case 137; spec R11."""
    models.admit("new", "fit-model", version=2, params={})
    models.admit("old", "fit-model", version=1, params={})

    drawn = [models.screen("show", name).out.splitlines()[0] for name in ("new", "old")]

    assert drawn[0].startswith("new    fit-model v2    ○ admitted")
    assert drawn[1].startswith("old    fit-model    ○ admitted")
    assert models.ys("show", "new", "--json").json["version"] == 2


def test_a_workers_claims_are_narrowed_to_the_versions_that_it_has(models: Shop) -> None:
    """case 89, 137; spec R11, E7: the other one costs it nothing and is left as it was."""
    models.admit("old", "fit-model", version=1, params={})
    models.admit("new", "fit-model", version=2, params={})
    number = models.start_worker(workflows=[("fit-model", 2)])

    claims = models.storage.deliveries.claim(
        models.clock.now_ms(), worker=number, limit=9, workflows=[("fit-model", 2)]
    )

    assert [claimed.delivery.execution_id for claimed in claims] == ["new"]
    assert models.ys("show", "old", "--json").json["deliveries"] == 0


def test_a_suspended_execution_of_a_missing_version_is_said_to_need_its_module(
    models: Shop,
) -> None:
    """case 137; spec R11, E12: it parks, and is told from those that merely wait."""
    models.admit("old", "fit-model", version=3, params={})
    models.deliver("old", waits=(), outcome=Suspended(models.clock.now_ms()))
    models.storage.workers.stop(models.worker_number or 0, "stopped")
    models.clock.advance(60_000)
    models.start_worker("shop:2", [("fit-model", 1), ("fit-model", 2)])

    explained = models.ys("explain", "old", "--json").json

    assert explained["verdict"] == "stuck"
    assert "fit-model version 3" in models.screen("explain", "old", columns=200).out


@pytest.mark.parametrize(
    ("words", "why", "remedy"),
    [
        (["gpu,ssd"], "a tag holds no comma and no space: 'gpu,ssd'", "--tag gpu --tag ssd"),
        (["a b"], "a tag holds no comma and no space: 'a b'", "--tag a --tag b"),
        (["ok", ""], "a tag is printable text, not ''", "--tag gpu"),
        (["\x1b[2J"], r"a tag is printable text, not '\x1b[2J'", "--tag"),
        (["x" * 101], "a tag has at most 100 bytes", "--tag"),
    ],
)
def test_what_is_no_tag_is_a_usage_error_with_what_to_write(
    models: Shop, words: list[str], why: str, remedy: str
) -> None:
    """spec O5, K6."""
    said = models.ys("worker", "--until-idle", *(part for w in words for part in ("--tag", w)))

    assert said.code == 2
    assert why in said.err
    assert f"ys worker {remedy}" in said.err
    assert "\x1b" not in said.err


def test_a_worker_without_the_tag_of_the_one_workflow_it_was_started_for_is_refused(
    shop: Shop,
) -> None:
    """spec O5: before it opens the database."""
    shop.module("models.py", MODULE.replace('id="fit-model"', 'id="bill"'))

    said = shop.ys("worker", "--only", "fit-model", "--tag", "ssd")

    assert said.code == 2
    assert "without --tag gpu this worker cannot run fit-model" in said.err
    assert "ys worker --only fit-model --tag gpu --tag ssd" in said.err
    assert not shop.db.exists()
