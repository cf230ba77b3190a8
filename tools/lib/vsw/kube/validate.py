"""A check of values against a schema: the part of JSON Schema that the chart's values, the kinds of
the manifests and CustomResourceDefinitions use. A keyword that it does not know is an error."""

import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
# They say nothing about a value.
SILENT = {"$schema", "title", "description", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"}
KNOWN = SILENT | {
    "type",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "minItems",
}


def is_of(value, name):
    """Whether a value is of a type, by its name in JSON Schema."""
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def problems(value, schema, path="", strict=False):
    """What is wrong, each with its path. `strict`: fields that a schema of an object does not name
    are wrong, unless it keeps them, as a CustomResourceDefinition's server sees it."""
    unknown = set(schema) - KNOWN
    if unknown:
        raise ValueError(f"{path}: the check does not know {', '.join(sorted(unknown))}")
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_of(value, kind) for kind in kinds):
        yield f"{path}: {value!r} is no {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "anyOf" in schema and all(any(problems(value, each, path, strict)) for each in schema["anyOf"]):
        yield f"{path}: {value!r} fits none of the choices"
    if isinstance(value, str):
        yield from of_text(value, schema, path)
    elif isinstance(value, dict):
        yield from of_object(value, schema, path, strict)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: has {len(value)} items"
        for place, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{path}[{place}]", strict)
    elif not isinstance(value, bool) and value is not None:
        yield from of_number(value, schema, path)


def of_text(value, schema, path):
    """What is wrong with a text."""
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {value!r} is too short or too long"


def of_number(value, schema, path):
    """What is wrong with a number."""
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is out of range"
    if "multipleOf" in schema and value % schema["multipleOf"]:
        yield f"{path}: {value} is no multiple of {schema['multipleOf']}"


def of_object(value, schema, path, strict):
    """What is wrong with an object."""
    fields = schema.get("properties", {})
    others = schema.get(
        "additionalProperties", not strict or "properties" not in schema or schema.get("x-kubernetes-preserve-unknown-fields", False)
    )
    yield from (f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value)
    for name, item in value.items():
        if name in fields:
            yield from problems(item, fields[name], f"{path}.{name}", strict)
        elif others is False:
            yield f"{path}: {name} is unknown"
        elif isinstance(others, dict):
            yield from problems(item, others, f"{path}.{name}", strict)
