"""DBOS over SQLite, as shipped: workflows on a queue that one worker process polls."""

from __future__ import annotations

import threading
from pathlib import Path

from common import STEPS_EACH, main, ready
from dbos import DBOS, DBOSClient, DBOSConfig

QUEUE = "measured"
VERSION = "measured"


@DBOS.step()
def add_one(n: int) -> int:
    """A step that does nothing much."""
    return n + 1


@DBOS.workflow()
def one(n: int) -> int:
    """One step."""
    return add_one(n)


@DBOS.workflow()
def ten(n: int) -> int:
    """Ten steps, one after the other."""
    for _ in range(STEPS_EACH):
        n = add_one(n)
    return n


def url_of(folder: Path) -> str:
    """The file in `folder`."""
    return f"sqlite:///{folder / 'dbos.sqlite'}"


class DbosPeer:
    """One workflow is one execution."""

    every_s = 0.1

    def __init__(self) -> None:
        self._client: DBOSClient | None = None

    def prepare(self, folder: Path) -> None:
        """Make the tables."""
        self._launch(folder)
        DBOS.destroy()

    def enqueue(self, folder: Path, work: str, count: int) -> None:
        """By a client that runs nothing itself."""
        client = self._clients(folder)
        for n in range(count):
            client.enqueue({"workflow_name": work, "queue_name": QUEUE, "app_version": VERSION}, n)

    def done(self, folder: Path) -> int:
        """Workflows that succeeded."""
        found = self._clients(folder).list_workflows(
            status="SUCCESS", load_input=False, load_output=False
        )
        return len(found)

    def serve(self, folder: Path) -> None:
        """Launch, which takes from the queue in threads."""
        self._launch(folder)
        ready()
        threading.Event().wait()

    def _clients(self, folder: Path) -> DBOSClient:
        if self._client is None:
            self._client = DBOSClient(system_database_url=url_of(folder))
        return self._client

    def _launch(self, folder: Path) -> None:
        config = DBOSConfig(
            name="measured",
            system_database_url=url_of(folder),
            application_version=VERSION,
            executor_id="measured",
            log_level="ERROR",
        )
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue(QUEUE)


if __name__ == "__main__":
    main(DbosPeer())
