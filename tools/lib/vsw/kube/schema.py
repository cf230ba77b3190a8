"""Pieces of structural schemas (OpenAPI v3, as CustomResourceDefinitions have them)."""

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}
# Any object.
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def array(items):
    """A list."""
    return {"type": "array", "items": items}


TEXTS = array(STRING)


def obj(properties, *required):
    """An object with these fields."""
    return {"type": "object", "properties": properties, **({"required": sorted(required)} if required else {})}


def enum(*words):
    """One of these words."""
    return {"type": "string", "enum": list(words)}


def integer(least, most):
    """A number of this range."""
    return {"type": "integer", "minimum": least, "maximum": most}


def described(schema, text):
    """A schema with a sentence for `kubectl explain`."""
    return {**schema, "description": text}


# A label selector.
SELECTOR = {
    "type": "object",
    "properties": {
        "matchLabels": {"type": "object", "additionalProperties": STRING},
        "matchExpressions": array(
            obj({"key": STRING, "operator": enum("In", "NotIn", "Exists", "DoesNotExist"), "values": TEXTS}, "key", "operator")
        ),
    },
}
