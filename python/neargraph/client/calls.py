"""Methods of the server with small messages, which are called by name with JSON."""

import json
from typing import Any

from neargraph.client.modes import Request, Steps


def call(method: str, **message: Any) -> Steps[dict[str, Any]]:
    """Calls a method by name and returns its answer."""
    answer: dict[str, Any] = json.loads((yield Request("call", (method, json.dumps(message)))))
    return answer


def field_of(method: str, field: str, **message: Any) -> Steps[dict[str, Any]]:
    """Calls a method and returns one field of its answer."""
    return dict((yield from call(method, **message))[field])


def listed(method: str, field: str) -> Steps[list[dict[str, Any]]]:
    """Calls a method and returns the list in its answer."""
    return list((yield from call(method))[field])
