"""A client of a service that allows so many calls: they take tokens from a bucket in a store.

    ys trigger refill-bucket --id refill-maps -p service=maps -p every=200ms
    ys trigger find-place -p service=maps -p name=Paris     # as often as you like
    ys worker --until-idle --linger 5s
    ys store watch Bucket maps

Every execution of every worker on the file shares the bucket, and waiting for a token costs
neither a thread nor a look at the clock.
"""

import msgspec

from yieldstar_cli import Step, Store, workflow

#: With so many operations in its history, the refill begins its next incarnation.
LARGE = 200


class Bucket(msgspec.Struct):
    """A store: calls that may be made now, and how many may be saved up."""

    left: int = 5
    size: int = 5


class Refill(msgspec.Struct):
    """How fast tokens come back."""

    service: str
    every: str = "1s"


def any_left(bucket: Bucket) -> int | None:
    """Nothing to take: wait."""
    return bucket.left if bucket.left > 0 else None


def spend(bucket: Bucket, left: int) -> None:
    """Test and claim are one commit: no token is spent twice."""
    bucket.left = left - 1


def is_used(bucket: Bucket) -> bool:
    """Whether there is room for a token."""
    return bucket.left < bucket.size


def add_token(bucket: Bucket) -> None:
    """One call more."""
    bucket.left = min(bucket.left + 1, bucket.size)


async def bucket_of(step: Step, service: str) -> Store[Bucket]:
    """Whoever comes first makes it."""
    return await step.store(Bucket, service, initial=Bucket())


def ask_service(service: str, name: str) -> str | None:
    """The call that is limited; None when the service says "too many" all the same."""
    return f"{name} according to {service}"


@workflow
async def find_place(step: Step, service: str, name: str) -> str:
    """Ask the service, with a token for each call, also for the second and third try."""
    bucket = await bucket_of(step, service)
    while True:
        await bucket.take(any_left, spend)
        if (found := await step.run(ask_service, service, name)) is not None:
            return found


@workflow
async def refill_bucket(step: Step, p: Refill) -> None:
    """Put a token back each `every`, for ever; while the bucket is full, nothing is due."""
    bucket = await bucket_of(step, p.service)
    while step.event.operations < LARGE:
        await bucket.when(is_used)
        await step.sleep(p.every)
        await bucket.update(add_token)
    await step.continue_as(p)
