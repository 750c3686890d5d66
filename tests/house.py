"""The house's rules as functions: each takes modules and answers what breaks the rule, and where.

They read source text only; nothing of the house is imported here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "yieldstar_cli"

LONGEST_MODULE = 300
LONGEST_FUNCTION = 40
LARGEST_PROTOCOL = 8


@dataclass(frozen=True)
class Module:
    """One source file; `name` is dotted and relative to the package, "" for the package itself."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def is_package(self) -> bool:
        """True for an `__init__.py`."""
        return self.name == "" or self.name.endswith(".__init__")

    def at(self, node: ast.AST, what: str) -> str:
        """A finding: where, and what."""
        return f"{self.name or '__init__'}:{getattr(node, 'lineno', 1)}: {what}"


def modules(root: Path) -> list[Module]:
    """Every module of the package at `root`."""
    found = []
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        found.append(Module("" if name == "__init__" else name, path.read_text(encoding="utf-8")))
    return found


def names_of(all_modules: Iterable[Module]) -> set[str]:
    """The dotted names that can be imported from the package."""
    return {module.name.removesuffix(".__init__") for module in all_modules}


def within(name: str, places: Collection[str]) -> bool:
    """Whether module `name` is one of `places`, or lies in one that ends with a dot."""
    return any(
        name == place or (place.endswith(".") and name.startswith(place)) for place in places
    )


# --- imports -----------------------------------------------------------------------------------


def imports(module: Module, known: Collection[str]) -> Iterator[tuple[ast.AST, str]]:
    """Every import, wherever it stands: (node, dotted name). Ours begin with the package."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module.name}: relative imports are not used here"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                is_module = inner.removeprefix(f"{PACKAGE}.") in known
                yield node, inner if is_module else base


def ours(module: Module, known: Collection[str]) -> Iterator[tuple[ast.AST, str]]:
    """The imports of the house itself, relative to the package."""
    for node, name in imports(module, known):
        if name == PACKAGE or name.startswith(f"{PACKAGE}."):
            yield node, name.removeprefix(PACKAGE).removeprefix(".")


def imported_only_in(
    all_modules: Sequence[Module], packages: Collection[str], places: Collection[str]
) -> list[str]:
    """`packages` are imported nowhere but in `places`."""
    known = names_of(all_modules)
    return [
        module.at(node, f"imports {name}")
        for module in all_modules
        if not within(module.name, places)
        for node, name in imports(module, known)
        if name.split(".")[0] in packages
    ]


def undeclared(all_modules: Sequence[Module], declared: Collection[str]) -> list[str]:
    """Everything imported is of Python, of the house, or declared."""
    known = names_of(all_modules)
    found = []
    for module in all_modules:
        for node, name in imports(module, known):
            top = name.split(".")[0]
            if top == PACKAGE or top in sys.stdlib_module_names:
                continue
            if top not in declared:
                found.append(module.at(node, f"imports {top}, which pyproject.toml does not name"))
    return found


def arrows(
    all_modules: Sequence[Module], rooms: Mapping[str, str], allowed: Mapping[str, Collection[str]]
) -> list[str]:
    """Every arrow points down: a module imports only from its own room and those below it.

    `rooms` maps the beginning of a module's name to its room, the longest counts; `allowed` maps
    a room to the rooms that it may import.
    """
    known = names_of(all_modules)
    found = []
    for module in all_modules:
        room = room_of(module.name, rooms)
        if room is None:
            found.append(module.at(module.tree, "stands in no room"))
            continue
        for node, name in ours(module, known):
            other = room_of(name, rooms)
            if other is not None and other != room and other not in allowed[room]:
                found.append(module.at(node, f"{room} imports {name} of {other}"))
    return found


def room_of(name: str, rooms: Mapping[str, str]) -> str | None:
    """The room of a module, by the longest beginning of its name that is listed.

    `codec_types` and its like belong where `codec` does.
    """
    name = name.removesuffix(".__init__")
    parts = name.split(".") if name else [""]
    for length in range(len(parts), 0, -1):
        room = rooms.get(".".join(parts[:length]))
        if room is not None:
            return room
    return rooms.get(parts[0].partition("_")[0])


# --- calls and names -----------------------------------------------------------------------------


def dotted(node: ast.AST) -> str:
    """`a.b.c` for such an expression, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def called_only_in(
    all_modules: Sequence[Module], pattern: str, places: Collection[str]
) -> list[str]:
    """What matches `pattern` (a whole dotted name) is used nowhere but in `places`."""
    wanted = re.compile(pattern)
    found = []
    for module in all_modules:
        if within(module.name, places):
            continue
        found += [
            module.at(node, f"uses {dotted(node)}")
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute | ast.Name) and wanted.fullmatch(dotted(node))
        ]
    return found


def parameters_named(
    all_modules: Sequence[Module], names: Collection[str], allowed: Collection[str]
) -> list[str]:
    """No parameter has one of `names`, except in the functions `allowed` ("module.function")."""
    found = []
    for module in all_modules:
        for function in functions(module):
            if f"{module.name}.{function.name}" in allowed:
                continue
            arguments = function.args
            found += [
                module.at(argument, f"{function.name} names a parameter {argument.arg}")
                for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                if argument.arg in names
            ]
    return found


_CONTAINERS = {"dict", "list", "set", "deque", "defaultdict", "OrderedDict", "Counter"}
_CHANGERS = {
    *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"),
    *("setdefault", "sort", "update"),
}


def changed_globals(all_modules: Sequence[Module], allowed: Collection[str]) -> list[str]:
    """No module-level value is changed: no `global`, no empty container, nothing put into one.

    An object made at module level has a CONSTANT's name, unless it is a context variable, or
    `allowed` names it ("module.name").
    """
    found = []
    for module in all_modules:
        containers = set()
        for node in module.tree.body:
            name, value = _assigned(node)
            if name is None or value is None:
                continue
            if _is_object(name, value) and f"{module.name}.{name}" not in allowed:
                found.append(module.at(node, f"{name} is an object that is no constant"))
            if _is_container(value):
                containers.add(name)
                if _is_empty(value):
                    found.append(module.at(node, f"{name} is an empty container to be filled"))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):
                found.append(module.at(node, f"global {', '.join(node.names)}"))
            elif (changed := _changed_name(node)) in containers:
                found.append(module.at(node, f"changes {changed}"))
    return found


def _assigned(node: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    return None, None


def _is_object(name: str, value: ast.expr) -> bool:
    made = isinstance(value, ast.Call) and not dotted(value.func).endswith("ContextVar")
    return made and name.strip("_")[0].islower()


def _is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return dotted(value.func).split(".")[-1] in _CONTAINERS
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp)


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    return isinstance(value, ast.Call) and not value.args and not value.keywords


def _changed_name(node: ast.AST) -> str | None:
    """The name whose container this node changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return dotted(node.func.value) if node.func.attr in _CHANGERS else None
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
        targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
        for target in targets:
            if isinstance(target, ast.Subscript):
                return dotted(target.value)
    return None


# --- SQL -----------------------------------------------------------------------------------------

_STATEMENT = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|PRAGMA|ATTACH|WITH|FROM|WHERE)\b"
)
_WRITES = re.compile(
    r"\b(?:INSERT(?:\s+OR\s+\w+)?\s+INTO|REPLACE\s+INTO|UPDATE|DELETE\s+FROM)\s+([a-z_]+)"
)
_GUARDED = re.compile(r"\b(UPDATE\s+[a-z_]+\s+SET|DELETE\s+FROM)\b")
_RUNNERS = {"execute", "executemany", "row", "rows", "run", "run_many"}


def texts(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Every string constant that is no docstring, with adjacent constants joined by `+`."""
    skipped = set(map(id, docstrings(module)))
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node, node.value


def docstrings(module: Module) -> Iterator[ast.Constant]:
    """The nodes of all docstrings."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def written_elsewhere(
    all_modules: Sequence[Module], writers: Mapping[str, Collection[str]]
) -> list[str]:
    """Each table is written in the modules that `writers` names for it, and in no other."""
    found = []
    for module in all_modules:
        for node, text in texts(module):
            found += [
                module.at(node, f"writes {table}")
                for table in _WRITES.findall(text)
                if module.name not in writers.get(table, ())
            ]
    return found


def sql_with_data(all_modules: Sequence[Module], allowed: Collection[str]) -> list[str]:
    """No statement is put together from data; `allowed` names constants made of our numbers.

    Parts may be joined where all of them are constants: literals or UPPER-CASE names.
    """
    found = []
    for module in all_modules:
        exempt = _exempt(module, allowed)
        for node in ast.walk(module.tree):
            if id(node) in exempt:
                continue
            if isinstance(node, ast.JoinedStr) and node.values and _is_sql(node.values[0]):
                found.append(module.at(node, "an f-string with SQL"))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                if _is_sql(node.left):
                    found.append(module.at(node, "SQL with %"))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                if _has_sql(node) and not _is_constant(node):
                    found.append(module.at(node, "SQL with + of something that is no constant"))
            elif isinstance(node, ast.Call) and dotted(node.func) == "joined":
                if not all(map(_is_constant, node.args)):
                    found.append(module.at(node, "joins something that is no constant"))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "format" and _is_sql(node.func.value):
                    found.append(module.at(node, "SQL with format"))
                elif node.func.attr in _RUNNERS and node.args and _is_built(node.args[0]):
                    found.append(module.at(node, "runs SQL that is put together on the spot"))
    return found


def _exempt(module: Module, allowed: Collection[str]) -> set[int]:
    exempt: set[int] = set()
    for node in ast.walk(module.tree):
        name = node.name if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        if name is not None and f"{module.name}.{name}" in allowed:
            exempt |= {id(inner) for inner in ast.walk(node)}
    return exempt


def _is_sql(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _STATEMENT.match(node.value) is not None
    )


def _has_sql(node: ast.AST) -> bool:
    return any(_is_sql(inner) for inner in ast.walk(node))


def _is_constant(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    if isinstance(node, ast.Name | ast.Attribute):
        return dotted(node).split(".")[-1].isupper()
    return isinstance(node, ast.Constant)


def _is_built(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return not _is_constant(node)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in ("format", "join")
    )


def unguarded(all_modules: Sequence[Module]) -> list[str]:
    """Every UPDATE and DELETE of a whole statement says which rows it may touch."""
    found = []
    for module in all_modules:
        for node in module.tree.body:
            name, value = _assigned(node)
            if name is None or value is None:
                continue
            text = "" if name.startswith("_") else _joined(value, module)
            if _GUARDED.search(text) and not re.search(r"\bWHERE\b", text):
                found.append(module.at(node, f"{name} has no WHERE"))
    return found


def status_changes(all_modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    """Each statement that sets a status: (module.NAME, its WHERE)."""
    for module in all_modules:
        for node in module.tree.body:
            name, value = _assigned(node)
            text = _joined(value, module) if value is not None else ""
            if re.search(r"\bSET\b[^;]*?\bstatus\s+=", text or "", re.S):
                yield f"{module.name}.{name}", text.partition("WHERE")[2]


def _joined(value: ast.expr, module: Module) -> str:
    """The text of a constant, with the module's own constants put in for their names."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else ""
    if isinstance(value, ast.BinOp):
        return _joined(value.left, module) + _joined(value.right, module)
    if isinstance(value, ast.Call) and dotted(value.func) == "joined":
        return "\n".join(_joined(part, module) for part in value.args)
    if isinstance(value, ast.Name):
        for node in module.tree.body:
            name, inner = _assigned(node)
            if name == value.id and inner is not None:
                return _joined(inner, module)
    return ""


# --- sizes, words --------------------------------------------------------------------------------


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def module_lines(module: Module) -> int:
    """How many lines the file has."""
    return len(module.text.splitlines())


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines of work a function has: its body without its docstring."""
    body = list(function.body)
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def protocol_methods(node: ast.ClassDef) -> int:
    """How many methods a Protocol asks for; a property is an attribute, no method."""
    return sum(
        isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(dotted(d) == "property" for d in member.decorator_list)
        for member in node.body
    )


def sizes(all_modules: Sequence[Module]) -> dict[str, int]:
    """What is larger than its ceiling: modules, functions and Protocols, each with its size."""
    found = {}
    for module in all_modules:
        if module_lines(module) > LONGEST_MODULE:
            found[module.name] = module_lines(module)
        for function in functions(module):
            if body_lines(function) > LONGEST_FUNCTION:
                found[f"{module.name}:{function.name}"] = body_lines(function)
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            bases = {dotted(base).split(".")[-1] for base in node.bases}
            if "Protocol" in bases and protocol_methods(node) > LARGEST_PROTOCOL:
                found[f"{module.name}:{node.name}"] = protocol_methods(node)
    return found


def too_large(all_modules: Sequence[Module], excused: Mapping[str, tuple[int, str]]) -> list[str]:
    """Nothing is larger than its ceiling, or than what it is excused for, with a reason."""
    return [
        f"{name} has {size}"
        for name, size in sizes(all_modules).items()
        if size > excused.get(name, (0, ""))[0]
    ]


def without_job(all_modules: Sequence[Module]) -> list[str]:
    """Every module opens with its one job: a docstring whose first line is a sentence."""
    found = []
    for module in all_modules:
        if not module.text.strip():
            continue
        text = ast.get_docstring(module.tree) or ""
        first = text.split("\n\n")[0].replace("\n", " ").strip()
        if not first:
            found.append(module.at(module.tree, "does not say what its job is"))
        elif not first.endswith(".") or not (first[0].isupper() or first[0] == "`"):
            found.append(module.at(module.tree, f"opens with no sentence: {first!r}"))
    return found


def misnamed_numbers(module: Module, counts: Collection[str]) -> list[str]:
    """Whole numbers in frozen nouns are instants (`_at`), spans (`_ms`), or known counts."""
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ClassDef) or not any(
            dotted(d.func if isinstance(d, ast.Call) else d) == "dataclass"
            for d in node.decorator_list
        ):
            continue
        for field in node.body:
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            name = field.target.id
            if "int" not in ast.unparse(field.annotation).split(" | "):
                continue
            if name != "at" and not name.endswith(("_at", "_ms")) and name not in counts:
                found.append(
                    module.at(field, f"{node.name}.{name} is neither _at, _ms nor a count")
                )
    return found


def without_claim(all_modules: Sequence[Module]) -> list[str]:
    """Every test claims something: it asserts, expects an error, or calls a helper that does."""
    everything = [(module, function) for module in all_modules for function in functions(module)]
    claiming = {"raises", "fail", "assert_type"}
    while True:
        more = {f.name for _, f in everything if f.name not in claiming and _claims(f, claiming)}
        if not more:
            break
        claiming |= more
    return [
        module.at(function, f"{function.name} claims nothing")
        for module, function in everything
        if function.name.startswith("test_") and function.name not in claiming
    ]


def _claims(function: ast.AST, claiming: Collection[str]) -> bool:
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in claiming)
        for node in ast.walk(function)
    )


Rule = Callable[[Sequence[Module]], list[str]]
