"""The short way for the hot commands: words read from a table, and typer is never loaded.

What is not understood at once goes to typer, every word of it, before anything was done. The
commands themselves are the same functions (`cli/show.py` and so on).
"""
