"""Tells of a store what `ys store` answers: its document, its state, what became of it."""

from __future__ import annotations

from yieldstar_cli.cli import documents
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.render import document, safe
from yieldstar_cli.model import StoreRecord


def store_document(record: StoreRecord) -> documents.Document:
    """`ys.store/1`."""
    return {
        "schema": "ys.store/1",
        "store": record.name,
        "id": record.store_id,
        "instance": record.instance,
        "version": record.version,
        "created_at": documents.moment(record.created_at),
        "updated_at": documents.moment(record.updated_at),
        "state": document.raw(record.state),
    }


def shown(record: StoreRecord) -> str:
    """Name and ID for people."""
    return f"{safe.visible(record.name)} {safe.visible(record.store_id)}"


def tell_written(call: Call, record: StoreRecord) -> None:
    """Print what was written: its version; with `--json` all of it."""
    if call.settings.json:
        call.print_document(store_document(record))
    elif call.drawn:
        good = call.look.paint("good", call.look.g("✓"))
        what = "Made" if record.version == 0 else "Wrote"
        call.print(f"{good} {what} {shown(record)}, version {record.version}.")
    else:
        cells = (safe.visible(record.name), safe.visible(record.store_id), str(record.version))
        call.print("\t".join(cells))


def tell_deleted(call: Call, record: StoreRecord) -> None:
    """Print that a store was deleted."""
    if call.settings.json:
        call.print_document(
            {
                "schema": "ys.answer/1",
                "store": record.name,
                "id": record.store_id,
                "answer": "deleted",
            }
        )
    elif call.drawn:
        good = call.look.paint("good", call.look.g("✓"))
        call.print(f"{good} Deleted {shown(record)}.")
    else:
        call.print(f"{safe.visible(record.name)}\t{safe.visible(record.store_id)}\tdeleted")
