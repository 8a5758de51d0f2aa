"""The pages of the documentation that are made from the program itself, so that they cannot go stale.

``reference/settings.md`` from the configuration, ``reference/commands.md`` from the command line, and a page of
``reference/api/`` for each part of the library, from its docstrings. ``docs_hooks.py`` puts them into the site.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from residapt.settings import is_group

NUMBERS = {"Ge": "at least", "Gt": "more than", "Le": "at most", "Lt": "less than"}
KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text", dict: "table"}
PUBLIC = {
    "adapt": ("Adapt", ("adapt", "AdaptedRun", "accept", "reject")),
    "streams": (
        "Streams and adapters",
        ("TwoStream", "load", "AdapterSet", "save_pretrained", "push_to_hub", "AdapterMetadata"),
    ),
    "training": ("Training", ("Trainer", "Callback", "frozen", "register")),
    "errors": ("Errors", ("ResidaptError", "ConfigError", "DataError", "ModelError", "TrainingError", "Interrupted")),
}
"""Pages of the API with the public names on them; what is left goes onto ``configuration``."""
DATA = (
    "domains.DomainPair",
    "domains.Labelled",
    "domains.TensorImages",
    "synthetic.printed_digits",
    "synthetic.handwritten_digits",
    "synthetic.ImageSet",
)
MACHINES = """
## For scripts

Exit codes:

| code | meaning |
|---|---|
| 0 | done |
| 1 | `residapt doctor` found a problem, or an error of the program itself, with its traceback |
| 2 | bad input; one message says what was received, where, and what to do |
| 128 + n | stopped by signal n: 130 by Ctrl-C, 143 by `kill`; `--resume` goes on |

Results go to the standard output. Errors go to the standard error stream, and so do the progress and notes of commands
that print rows or JSON. `--quiet` leaves only results and errors; `--json` prints the result as one JSON text. Colours
are used on a terminal only; the environment variable `NO_COLOR` switches them off there as well.

From Python, `verbose=False` prints nothing; what would be said goes to the logger `residapt` of the module `logging`.
""".splitlines()
PACKAGES = {"losses": "Losses", "rank": "Ranks", "methods": "Methods", "models": "Networks", "data": "Data"}


def generated_pages() -> dict[str, str]:
    """Path inside the documentation and Markdown text of every page that is made here."""
    return {
        "reference/settings.md": settings_page(),
        "reference/commands.md": commands_page(),
        **{f"reference/api/{name}.md": text for name, text in api_pages().items()},
    }


def settings_page() -> str:
    """Every setting with its default, its kind and what it does, one section for each group."""
    from residapt.config import Config, describe_config

    config = Config()
    fields = dict(_fields(Config))
    parts = [
        "# Settings",
        "",
        "Every setting of a run, from the configuration itself (`residapt config` prints the same). Give one as "
        "`--set KEY=VALUE` on the command line, in a TOML file (`--config`), or to `residapt.adapt` as "
        '`**{"KEY": VALUE}`. A recipe changes some defaults; explicit settings override it.',
    ]
    last = None
    for key, value, text in sorted(describe_config(config), key=lambda row: row[0].count(".") > 0):
        group = key.rpartition(".")[0].split(".")[0]
        if group != last:
            parts += ["", f"## {group or 'Of the whole run'}"]
            last = group
        shown = "none" if value is None else json.dumps(value)
        parts += ["", f"### `{key}`", "", f"`{shown}` by default; {_kind(fields[key])}.", "", " ".join(text.split())]
    return "\n".join(parts) + "\n"


def _fields(cls: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in cls.model_fields.items():
        if is_group(field.annotation):
            inlined = name == getattr(cls, "inlined", "")
            yield from _fields(field.annotation, prefix if inlined else f"{prefix}{name}.")
        else:
            yield prefix + name, field


def _kind(field: FieldInfo) -> str:
    """What values a setting takes, in words."""
    limits = [
        f"{words} {getattr(limit, type(limit).__name__.lower()):g}"
        for limit in field.metadata
        if (words := NUMBERS.get(type(limit).__name__)) and abs(getattr(limit, type(limit).__name__.lower())) < 2**60
    ]
    return _words(field.annotation) + (f", {' and '.join(limits)}" if limits else "")


def _words(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{value}`" for value in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("nothing" if each is type(None) else _words(each) for each in inner)
    if origin is tuple:
        return "a list" if inner[-1] is Ellipsis else f"{len(inner)} values"
    if origin is typing.Annotated:
        return _words(inner[0])
    return KINDS.get(origin or kind, "a value")


def commands_page() -> str:
    """Every command with its arguments and options, from the command line itself."""
    from residapt.cli.app import app
    from residapt.cli.commands import MODULES

    for name in MODULES:
        import_module(f"residapt.cli.{name}")
    root = typer.main.get_command(app)
    parts = [
        "# Commands",
        "",
        "From the command line's own help: `residapt COMMAND --help` prints the same.",
        "",
        *_parameters(root),
        *MACHINES,
    ]
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        if not command.hidden:
            parts += _command(name, command)
    return "\n".join(parts) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    yield from ("", f"## `residapt {name}`", "", " ".join((command.help or "").split()), "")
    if command.epilog:
        yield from ("```sh", command.epilog.removeprefix("Example: "), "```", "")
    yield from _parameters(command)


def _parameters(command: Any) -> Iterator[str]:
    """A definition list: what is typed, and below it what it means."""
    context = command.context_class(command)
    for each in command.params:
        record = None if each.name == "help" else each.get_help_record(context)
        if record is not None:
            typed, text = (" ".join(part.split()) for part in record)
            yield from (f"`{typed}`", f":   {_escaped(text)}", "")


def _escaped(text: str) -> str:
    """Plain text in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)


def api_pages() -> dict[str, str]:
    """A page for each part of the public API; every public name is on exactly one."""
    import residapt

    named = {name for _, names in PUBLIC.values() for name in names}
    left = [name for name in residapt.__all__ if name not in {*named, *PACKAGES, "__version__"}]
    seen: set[str] = set()
    pages = {key: _api(title, "residapt", names, seen) for key, (title, names) in PUBLIC.items()}
    pages["configuration"] = _api("Configuration", "residapt", left, seen)
    for package, title in PACKAGES.items():
        names = DATA if package == "data" else import_module(f"residapt.{package}").__all__
        pages[package] = _api(title, f"residapt.{package}", names, seen)
    return pages


def _api(title: str, package: str, names: Iterable[str], seen: set[str]) -> str:
    """A heading and what mkdocstrings replaces by the documentation of each name."""
    places = [place for name in names if (place := _place(package, name)) not in seen]
    seen.update(places)
    return "\n".join([f"# {title}", "", *(f"::: {place}\n" for place in places)])


def _place(package: str, name: str) -> str:
    """Where a name is defined: a function may have the name of its module."""
    module, _, inner = f"{package}.{name}".rpartition(".")
    found = getattr(import_module(module), inner)
    return f"{found.__module__}.{found.__qualname__}" if hasattr(found, "__qualname__") else f"{package}.{name}"
