"""A project directory in which `ys` is called, in this process or as one of its own."""

from tests.cli.conftest import charge_order, plain_environment, shop

__all__ = ["charge_order", "plain_environment", "shop"]
