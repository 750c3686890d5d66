"""A service that fails now and then: retries with growing pauses, which survive a restart.

ys trigger convert-price -p cents=1000 -p outages=2
"""

from yieldstar_cli import Fatal, RetryPolicy, Step, this_step, workflow

RATES = {"EUR": 1.0, "USD": 1.08, "JPY": 163.5}


class RatesAreDown(Exception):
    """The rate service did not answer."""


def fetch_rate(currency: str, outages: int) -> float:
    """The rate of `currency`; fails the first `outages` times. An unknown one is hopeless."""
    if currency not in RATES:
        raise Fatal(f"there is no rate for {currency}")
    if this_step().attempt <= outages:
        raise RatesAreDown(f"no answer, attempt {this_step().attempt}")
    return RATES[currency]


@workflow
async def convert_price(step: Step, cents: int, currency: str = "USD", outages: int = 1) -> int:
    """Convert a price in euro cents, however often the rate service is down for a moment.

    A step is tried five times, after pauses of 0.2, 0.4, 0.8 and 1.6 seconds.
    """
    patient = step.using(retry=RetryPolicy(attempts=5, first="200ms", only=(RatesAreDown,)))
    rate = await patient.run(fetch_rate, currency, outages)
    return round(cents * rate)
