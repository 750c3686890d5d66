"""What the chaos run executes; every call of a step is noted by its process."""

MODULE = '''
import os

from yieldstar_cli import EffectAnswer, Step, not_found, settled, workflow


def note(*words):
    """One line of this process's own, written at once."""
    with open(f"calls.{os.getpid()}", "a") as file:
        file.write(" ".join(map(str, words)) + "\\\\n")


def load(n: int) -> int:
    note("load", n)
    return n * 7


async def tag(n: int) -> str:
    note("tag", n)
    return f"t{n}"


def find(effect_id: str, n: int) -> EffectAnswer[str]:
    note("find", effect_id)
    return settled(f"receipt {n}") if os.path.exists(f"done/{effect_id}") else not_found


def charge(effect_id: str, n: int) -> str:
    note("charge", effect_id)
    # The shop's other side: what is done is there for whoever looks it up.
    with open(f"done/{effect_id}", "x"):
        pass
    return f"receipt {n}"


@workflow
async def order(step: Step, n: int) -> str:
    """Two steps, a sleep, and for every tenth a charge."""
    loaded = await step.run(load, n)
    await step.sleep(n % 50 / 10)
    tagged = await step.run(tag, loaded)
    if n % 10:
        return tagged
    return await step.effect(
        f"c-{n}", operation="charge", input=n, lookup=find, perform=charge, retry_in=1
    )
'''


def expected(n: int) -> str:
    """The result of order n."""
    return f"t{n * 7}" if n % 10 else f"receipt {n}"
