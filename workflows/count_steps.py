"""A long loop: each round is recorded, and a killed worker goes on where it stood.

ys trigger count-steps --id walk -p steps=500
"""

from yieldstar_cli import Step, workflow


def take_step(so_far: int) -> int:
    """One step further."""
    return so_far + 1


@workflow
async def count_steps(step: Step, steps: int = 100, rest: str = "0s") -> int:
    """Walk `steps` steps, resting after each hundred; `ys show` says how far it is.

    The step has the same name in every round; its keys are take-step, take-step#2 and so on.
    """
    walked = 0
    while walked < steps:
        walked = await step.run(take_step, walked)
        if walked % 100 == 0:
            step.set_status({"walked": walked, "of": steps})
            await step.sleep(rest)
    return walked
