"""The API reference as Markdown, a page for each room, from signatures and docstrings."""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from tools.exported_names import SOURCE, exported

LISTED = {"Args", "Inputs"}
SECTION = re.compile(r"^([A-Z][A-Za-z ]*):$")
EQUATION = re.compile(r"^\S{1,12} = |^target s|^target \(")


def rooms() -> list[str]:
    """Return the rooms of the package, without the command."""
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py") if path.parent.name != "cli")


def page(room: str) -> str:
    """Return the page of a room: what is in it, then every public name with its signature and docstring."""
    module = importlib.import_module(f"hypersphere.{room}")
    parts = [f"# hypersphere.{room}", markdown(module.__doc__ or "")]
    for name in exported(SOURCE / room / "__init__.py"):
        parts += entry(name, getattr(module, name))
    return "\n\n".join(part for part in parts if part) + "\n"


def entry(name: str, value: Any) -> Iterator[str]:
    """Yield the heading, the signature and the text of a public name; of a class also those of its methods."""
    yield f"## `{name}`"
    if not callable(value):
        yield constant(value)
        return
    yield from described(name, value)
    if inspect.isclass(value):
        for key, member in vars(value).items():
            called = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
            if called and member.__doc__ and not key.startswith("_"):
                yield f"### `{name}.{key}`"
                yield from described(key, getattr(value, key))


def described(name: str, value: Any) -> Iterator[str]:
    """Yield the signature and the text of something that is called."""
    yield f"```python\n{name}{signature(value)}\n```"
    yield markdown(inspect.cleandoc(value.__doc__ or "") if not _generated(value) else "")


def signature(value: Any) -> str:
    """Return the parameters of a call, one a line where they are many, and what it returns."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters, keyword_only = [], False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
        keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        parameters.append(f"{stars}{parameter.name}{_typed(parameter.annotation)}{_default(parameter.default)}")
    returned = "" if found.return_annotation in (found.empty, "None") else f" -> {_type(found.return_annotation)}"
    joined = ", ".join(parameters)
    return f"({joined}){returned}" if len(joined) < 90 else "(\n    " + ",\n    ".join(parameters) + f",\n){returned}"


def _typed(annotation: Any) -> str:
    return "" if annotation is inspect.Parameter.empty else f": {_type(annotation)}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    text = repr(value)
    return f" = {text if '<' not in text and len(text) < 60 else '...'}"


def _generated(value: Any) -> bool:
    """Whether a docstring is that of a base class or made by dataclasses, and says nothing of the thing itself."""
    text = value.__doc__ or ""
    return text.startswith(f"{getattr(value, '__name__', '')}(")


def constant(value: Any) -> str:
    """Return what a constant is, in one line."""
    text = repr(value)
    return f"`{text}`" if len(text) <= 120 and "`" not in text and "<" not in text else f"A `{type(value).__name__}`."


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown: its sections as bold words, arguments as lists, examples as code."""
    parts, section, lines = [], "", inspect.cleandoc(docstring).splitlines()
    block: list[str] = []
    for line in [*lines, "End:"]:
        found = SECTION.match(line)
        if found is None:
            block.append(line)
            continue
        parts += _section(section, textwrap.dedent("\n".join(block)).strip("\n"))
        section, block = found[1], []
    return "\n\n".join(parts)


def _section(title: str, text: str) -> list[str]:
    if not text:
        return []
    heading = [f"**{title}**"] if title else []
    if title.startswith("Example"):
        return [*heading, f"```python\n{text}\n```"]
    if title in LISTED and re.match(r"^[\w*, ]+: ", text):
        items = re.split(r"\n(?=\S)", text)
        return [*heading, "\n".join(_argument(item) for item in items)]
    return [*heading, *(_paragraph(each) for each in re.split(r"\n\s*\n", text))]


def _argument(text: str) -> str:
    names, _, said = " ".join(text.split()).partition(": ")
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {_escaped(said)}"


def _paragraph(text: str) -> str:
    if EQUATION.match(text) or text.startswith("    "):
        return f"```text\n{textwrap.dedent(text)}\n```"
    return _escaped(text)


def _escaped(text: str) -> str:
    """Escape what Markdown would take for markup, outside of code."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([<*\[\]])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)
