"""The version, written here so that no metadata is read to say it."""

__version__ = "0.1.0"
