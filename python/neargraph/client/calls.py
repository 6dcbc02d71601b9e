"""Methods of the server whose messages are small: by name, as JSON."""

import json
from typing import Any

from neargraph.client.modes import Request, Steps


def call(method: str, **message: Any) -> Steps[dict[str, Any]]:
    """A method by name."""
    answer: dict[str, Any] = json.loads((yield Request("call", (method, json.dumps(message)))))
    return answer


def field_of(method: str, field: str, **message: Any) -> Steps[dict[str, Any]]:
    """A method whose answer has one field."""
    return dict((yield from call(method, **message))[field])


def listed(method: str, field: str) -> Steps[list[dict[str, Any]]]:
    """A method whose answer is a list."""
    return list((yield from call(method))[field])
