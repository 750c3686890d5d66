"""Ours and the peers that are installed, on the same work in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from figures import Figure
from peers.install import PEERS, Peer
from scene import PATIENCE_S, BenchmarkFailed, fresh_scene, per_second
from sizes import Sizes

TITLE = "ours and other systems, on the same work: one step, and ten steps one after the other"

WORDS = {"one": "one-step executions", "ten": "steps, ten in an execution"}
OURS = {
    "one": (("async", "one-step", {"n": 1}), ("sync", "one-sync-step", {"n": 1})),
    "ten": (("async", "many-steps", {"steps": 10}), ("sync", "many-sync-steps", {"steps": 10})),
}
STEPS = {"one": 1, "ten": 10}


@dataclass(frozen=True, slots=True)
class _Rates:
    enqueued: float
    steps: float


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Rates of all, and how many times as fast as each peer ours is."""
    figures = []
    for work, words in WORDS.items():
        ours = {kind: _ours(parent, sizes, work, flow, params) for kind, flow, params in OURS[work]}
        for kind, rates in ours.items():
            figures += _shown(f"ours, {kind}", words, rates)
        for peer in PEERS:
            command = peer.command()
            if command is None or work not in peer.works:
                continue
            try:
                theirs = _theirs(parent, command, work, _count(sizes, peer, work))
            except BenchmarkFailed as failure:
                # Ours are measured all the same, and the others; the median is of fewer runs.
                print(failure, file=sys.stderr, flush=True)
                continue
            figures += _shown(peer.name, words, theirs)
            for kind, rates in ours.items():
                name = f"{words}: ours, {kind}, beside {peer.name}"
                figures.append(Figure(name, rates.steps / theirs.steps, "x"))
    return figures


def installed() -> list[str]:
    """The names of the peers that can be measured here."""
    return [peer.name for peer in PEERS if peer.command() is not None]


def _shown(who: str, words: str, rates: _Rates) -> list[Figure]:
    return [
        Figure(f"{words}, {who}", rates.steps, "/s"),
        Figure(f"{words}, {who}, enqueued", rates.enqueued, "executions/s"),
    ]


def _count(sizes: Sizes, peer: Peer, work: str) -> int:
    if work == "one":
        return sizes.slow_one_step if peer.slow else sizes.peer_one_step
    return sizes.slow_many_steps if peer.slow else sizes.peer_many_steps


def _ours(parent: Path, sizes: Sizes, work: str, flow: str, params: dict[str, int]) -> _Rates:
    """Admitted one by one, then drained: from the first claim to the last end."""
    count = sizes.peer_one_step if work == "one" else sizes.peer_many_steps
    with fresh_scene(parent) as scene:
        storage = scene.storage()
        for _ in range(count):
            storage.executions.admit(workflow_id=flow, params=params)
        storage.close()
        began, admitted = scene.numbers("SELECT min(admitted_at), max(admitted_at) FROM executions")
        scene.drain()
        scene.expect("completed", count)
        first, last = scene.claimed_to_ended()
    return _Rates(
        per_second(count, admitted - began), per_second(count * STEPS[work], last - first)
    )


def _theirs(parent: Path, command: list[str], work: str, count: int) -> _Rates:
    """As their program says: from when a worker is ready until all is done."""
    with tempfile.TemporaryDirectory(prefix="ys-bench-peer-", dir=parent) as folder:
        words = ["measure", "--dir", folder, "--work", work, "--count", str(count)]
        try:
            done = subprocess.run(
                [*command, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BenchmarkFailed(f"{command[-1]}, {work}: not done in time") from None
    if done.returncode != 0:
        raise BenchmarkFailed(f"{command[-1]}, {work}: {done.stderr[-2_000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return _Rates(found["enqueued_per_s"], found["steps_per_s"])
