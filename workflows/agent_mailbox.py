"""An agent's mailbox: a store whose owner takes one letter at a time, the urgent ones first.

    ys trigger agent --id ann -p name=ann
    ys trigger write-letter -p to=ann -p sender=bob -p text="what is new?"
    ys trigger write-letter -p to=ann -p sender=bob -p text="the house is on fire" -p urgent=true
    ys worker --until-idle
    ys store get Mailbox bob

A queue of messages would give the oldest, and to one execution. A mailbox lets its reader choose,
can be shared by several agents, and is there before and after any of them.
"""

import msgspec

from yieldstar_cli import Step, workflow

#: With so many operations in its history, an agent begins its next incarnation.
LARGE = 200


class Letter(msgspec.Struct):
    """What is in a mailbox."""

    number: int
    sender: str
    text: str
    urgent: bool = False


class Mailbox(msgspec.Struct):
    """A store: the letters that nobody has taken yet, in order."""

    letters: list[Letter] = []
    written: int = 0
    """How many there ever were."""


class Agent(msgspec.Struct):
    """Who reads which mailbox."""

    name: str
    answered: int = 0


#: What a reader takes: the letter's number, sender and text.
Taken = tuple[int, str, str]


def next_letter(box: Mailbox) -> Taken | None:
    """The first of the urgent letters, else the first; None: there is none, so wait."""
    if not box.letters:
        return None
    letter = min(box.letters, key=lambda one: (not one.urgent, one.number))
    return letter.number, letter.sender, letter.text


def take_out(box: Mailbox, taken: Taken) -> None:
    """In the same commit, so that no two agents get one letter."""
    box.letters = [one for one in box.letters if one.number != taken[0]]


async def post(step: Step, to: str, sender: str, text: str, urgent: bool = False) -> int:
    """Put a letter into a mailbox, which need not be there yet. Whoever waits is woken."""

    def put(box: Mailbox) -> None:
        box.written += 1
        box.letters.append(Letter(box.written, sender, text, urgent))

    box = await step.store(Mailbox, to, initial=Mailbox())
    return await box.update(put)


def think(name: str, text: str) -> str:
    """Where a real agent asks its model: a step, so that it is asked once for each letter."""
    return f"{name} has read: {text}"


@workflow
async def write_letter(step: Step, to: str, sender: str, text: str, urgent: bool = False) -> None:
    """Write to an agent."""
    await post(step, to, sender, text, urgent)


@workflow
async def agent(step: Step, p: Agent) -> int:
    """Answer each letter into the mailbox of its sender, until one says `stop`."""
    box = await step.store(Mailbox, p.name, initial=Mailbox())
    while step.event.operations < LARGE:
        _, sender, text = await box.take(next_letter, take_out)
        if text == "stop":
            return p.answered
        await post(step, sender, p.name, await step.run(think, p.name, text))
        p.answered += 1
        step.set_status({"answered": p.answered})
    return await step.continue_as(p)
