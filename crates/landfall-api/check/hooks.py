"""What a description cannot say: which users there are, and how lines are written."""

import json

import schemathesis
from schemathesis import GenerationMode

# Has funds at every service that `cargo xtask schema` starts.
USER = 4001


@schemathesis.hook
def before_call(context, case, kwargs):
    """A user that nobody knows is refused, whatever the schema says."""
    is_order = case.operation.label == "POST /api/v1/transfer"
    is_good = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if is_order and is_good and isinstance(case.body, dict) and "user_id" in case.body:
        case.body["user_id"] = USER


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
