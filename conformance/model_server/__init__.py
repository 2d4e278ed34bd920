"""A scripted model server: what an agent's model says is decided by the test.

It speaks OpenAI chat completions and Responses and Anthropic messages on 127.0.0.1. A script is a
function, a list of replies, or directives in the prompt. It knows nothing of ACP.
"""

from conformance.model_server.directives import PLAIN, parse
from conformance.model_server.reply import (
    Call,
    Cut,
    Delay,
    Failure,
    Finish,
    Hang,
    Malformed,
    Part,
    Repeat,
    Reply,
    Text,
    Think,
    ToolCall,
    Usage,
    Wait,
)
from conformance.model_server.request import Entry, ModelRequest, OfferedTool
from conformance.model_server.script import Directives, Script
from conformance.model_server.server import MODEL, ModelServer

__all__ = [
    "MODEL",
    "PLAIN",
    "Call",
    "Cut",
    "Delay",
    "Directives",
    "Entry",
    "Failure",
    "Finish",
    "Hang",
    "Malformed",
    "ModelRequest",
    "ModelServer",
    "OfferedTool",
    "Part",
    "Repeat",
    "Reply",
    "Script",
    "Text",
    "Think",
    "ToolCall",
    "Usage",
    "Wait",
    "parse",
]
