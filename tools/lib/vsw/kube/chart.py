"""Renders the chart's templates, as Helm does.

The templates keep to a part of Helm's language, so that this module can render them without Helm:

    .Values.NAME..., .Release.Namespace, .Chart.AppVersion, $NAME
    toJson X; X | quote; X | toYaml | nindent N; X | nindent N
    if X ... else ... end; range $KEY, $VALUE := X ... end

A dash in a brace takes away the blanks on its side. Anything else is an error.
"""

import json
import re

import yaml

from ..machine import Failure

TOKEN = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.S)
RANGE = re.compile(r"range \$(\w+), \$(\w+) := (\S+)$")


def tokens(text, name):
    """("text", TEXT) and ("action", ACTION), with blanks taken away where dashes say so."""
    place, parts, eat = 0, [], False
    for match in TOKEN.finditer(text):
        plain = text[place : match.start()]
        if eat:
            plain = plain.lstrip()
        if match[1]:
            plain = plain.rstrip()
        parts += [("text", plain), ("action", match[2])]
        place, eat = match.end(), bool(match[3])
    rest = text[place:]
    if "{{" in rest:
        raise Failure(f"{name}: a brace is not closed")
    return [*parts, ("text", rest.lstrip() if eat else rest)]


class Template:
    """A template as a tree of texts, ("value", ACTION), ("if", X, yes, no) and ("range", names, X,
    body)."""

    def __init__(self, name, text):
        self.name, self.left = name, tokens(text, name)
        self.tree, end = self._body()
        if end:
            raise Failure(f"{name}: `{end}` without a beginning")

    def _body(self):
        body = []
        while self.left:
            kind, what = self.left.pop(0)
            if kind == "text":
                body.append(what)
            elif what in ("end", "else"):
                return body, what
            elif what.startswith("if "):
                yes, end = self._body()
                no, end = self._body() if end == "else" else ([], end)
                self._closed(what, end)
                body.append(("if", what[3:], yes, no))
            elif loop := RANGE.match(what):
                inner, end = self._body()
                self._closed(what, end)
                body.append(("range", (loop[1], loop[2]), loop[3], inner))
            else:
                body.append(("value", what))
        return body, None

    def _closed(self, what, end):
        if end != "end":
            raise Failure(f"{self.name}: `{what}` has no end")

    def render(self, scope):
        """The text, with values of `scope`: {"Values": ..., "Release": ..., "Chart": ...}."""
        return self._render(self.tree, scope)

    def _render(self, body, scope):
        said = []
        for part in body:
            if isinstance(part, str):
                said.append(part)
            elif part[0] == "value":
                said.append(self._value(part[1], scope))
            elif part[0] == "if":
                said.append(self._render(part[2] if self._look(part[1], scope) else part[3], scope))
            else:
                _, (key, value), where, inner = part
                for name, item in sorted(self._look(where, scope).items()):
                    said.append(self._render(inner, {**scope, f"${key}": name, f"${value}": item}))
        return "".join(said)

    def _look(self, path, scope):
        first, *names = path.removeprefix(".").split(".")
        try:
            value = scope[first]
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            raise Failure(f"{self.name}: there is no {path}") from None
        return value

    def _value(self, action, scope):
        if action.startswith("toJson "):
            return json.dumps(self._look(action[7:], scope), sort_keys=True)
        path, *pipes = (word.strip() for word in action.split("|"))
        value = self._look(path, scope)
        for pipe in pipes:
            if pipe == "quote":
                value = json.dumps(str(value))
            elif pipe == "toYaml":
                value = yaml.safe_dump(value, default_flow_style=False, sort_keys=True).rstrip("\n")
            elif indent := re.fullmatch(r"nindent (\d+)", pipe):
                blanks = " " * int(indent[1])
                value = "\n" + "\n".join(blanks + line if line else line for line in str(value).splitlines())
            else:
                raise Failure(f"{self.name}: the renderer does not know `{pipe}`")
        if isinstance(value, (dict, list)):
            raise Failure(f"{self.name}: {path} is no single value")
        return str(value).lower() if isinstance(value, bool) else str(value)


def merged(values, more):
    """Values with other ones on top: maps field by field, as Helm does."""
    if isinstance(values, dict) and isinstance(more, dict):
        return {**values, **{name: merged(values.get(name), item) for name, item in more.items()}}
    return more


class Chart:
    """A chart in a directory."""

    def __init__(self, directory):
        self.directory = directory
        self.about = yaml.safe_load((directory / "Chart.yaml").read_text())
        self.values = yaml.safe_load((directory / "values.yaml").read_text())

    def render(self, name, namespace, **values):
        """A template's text."""
        scope = {
            "Values": merged(self.values, values),
            "Release": {"Namespace": namespace},
            "Chart": {"AppVersion": self.about["appVersion"]},
        }
        return Template(name, (self.directory / "templates" / name).read_text()).render(scope)

    def names(self):
        """Names of the templates that are manifests."""
        return sorted(file.name for file in (self.directory / "templates").glob("*.yaml"))
