"""The shop of the command line's tests, and an environment that reaches none of them."""

from tests.cli.conftest import plain_environment, shop

__all__ = ["plain_environment", "shop"]
