"""The `ys` command: finds the verb, runs it, and turns every error into words and a status."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from yieldstar_cli.cli import arguments, edge, pages, words
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.options import global_options
from yieldstar_cli.cli.verbs import ACTIONS, NAMES
from yieldstar_cli.clock import Clock, SystemClock

_CONTEXT = {"max_content_width": 80}


class _VerbCommand(TyperCommand):
    """One verb: its own options, the global ones, and our help page."""

    page: pages.Page

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Our page: examples, what it does, options, exit statuses."""
        pages.write_verb_page(self, self.page, ctx, formatter)


class _Verbs(TyperGroup):
    """All verbs; a verb's module is loaded when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in the order of the help page."""
        return list(NAMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb, built from its module; None for an unknown one."""
        return build(cmd_name) if cmd_name in NAMES else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb of this call; no abbreviation, no guess."""
        if args[0] not in NAMES and not args[0].startswith("-"):
            raise words.unknown_verb(args[0], ctx.obj.argv)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The verbs in groups, and the global options."""
        pages.write_root_page(self, ctx, formatter)


class _Actions(TyperGroup):
    """A verb with actions of its own; an action's module is loaded when it is called."""

    page: pages.Page

    def list_commands(self, ctx: Any) -> list[str]:
        """The actions in the order of the help page."""
        return [action.name for action in ACTIONS[self.page.verb]]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The action, built from its module; None for an unknown one."""
        known = cmd_name in self.list_commands(ctx)
        return build(self.page.verb, cmd_name) if known else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The action of this call; no abbreviation, no guess."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            raise words.unknown_action(self.page.verb, args[0], known, ctx.find_root().obj.argv)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Our page: examples, what it does, its actions, exit statuses."""
        pages.write_actions_page(self, self.page, formatter)


def build(name: str, action: str | None = None) -> TyperCommand | TyperGroup:
    """The typer command of one verb, or of one action of it."""
    whole = name if action is None else f"{name} {action}"
    module = importlib.import_module(f"yieldstar_cli.cli.{whole.replace(' ', '_')}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    _evaluate(module)
    settings: dict[str, Any] = {"add_help_option": False, "context_settings": dict(_CONTEXT)}
    command: TyperCommand | TyperGroup
    if whole in ACTIONS:
        app.callback(cls=_Actions, invoke_without_command=True, **settings)(module.command)
        command = typer.main.get_group(app)
    else:
        app.command(action or name, cls=_VerbCommand, **settings)(module.command)
        command = cast("TyperCommand", typer.main.get_command(app))
    assert isinstance(command, _VerbCommand | _Actions)
    command.page = pages.Page(whole, tuple(module.EXAMPLES), tuple(module.EXITS))
    command.params.extend(global_options(hidden=True))
    return command


def _evaluate(module: ModuleType) -> None:
    """Turn the annotations of a verb into typer's: the hot verbs import nothing of it."""
    names = {**vars(arguments), "typer": typer, "Annotated": Annotated, **vars(module)}
    function = inspect.unwrap(module.command)
    hints = get_type_hints(function, globalns=names, include_extras=True)
    # Whatever wraps the function, typer looks at both.
    function.__annotations__ = module.command.__annotations__ = hints


def root() -> TyperGroup:
    """The typer group of all verbs."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.callback(
        cls=_Verbs,
        invoke_without_command=True,
        add_help_option=False,
        context_settings=dict(_CONTEXT),
    )(_alone)
    group = typer.main.get_group(app)
    group.params.extend(global_options(hidden=False))
    return group


def _alone(context: typer.Context) -> None:
    """`ys` alone prints eight lines."""
    if context.invoked_subcommand is None:
        context.obj.print_lines(pages.first_lines())


def run(argv: Sequence[str], *, clock: Clock | None = None) -> int:
    """Run one call and return its exit status; every error has been told by then."""
    call = Call(argv=tuple(argv), clock=clock or SystemClock())
    return edge.conducted(call, lambda: _invoke(call))


def _invoke(call: Call) -> int:
    try:
        with root().make_context("ys", list(call.argv), obj=call) as context:
            status = context.command.invoke(context)
    except typer.Exit as end:
        return int(end.exit_code)
    except words.Complaint as complaint:
        raise words.usage_error(complaint, call.argv) from None
    return int(status or 0)
