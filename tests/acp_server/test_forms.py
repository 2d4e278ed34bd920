"""Forms: whatever comes in, what is shown is flat, valid, short, and asks for no secret."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acp_server.forms import answer_of, content_of, defanged, form_of, message_of
from acp_server.framing import encode
from harness_core.person import Answer, Unanswered, Unasked
from tests.acp_server.judge import LONGEST_LINE, faults

LINK = re.compile(r"://|\bmailto:|\bwww\.|\]\(", re.IGNORECASE)


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def text(**more: Any) -> dict[str, Any]:
    return fields(value={"type": "string", **more})


def shown(form: dict[str, Any], message: str = "Well?") -> None:
    """A form travels in a valid line of a length that every client takes."""
    params = {
        "sessionId": "s1",
        "mode": "form",
        "message": message_of(message),
        "requestedSchema": form,
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    assert faults(request) == []
    assert len(encode(request)) < LONGEST_LINE


# --- anything at all ------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
WORDS = st.text() | st.sampled_from(["see https://a.example/b", "[x](y)", "www.x", "long " * 999])
NUMBERS = st.integers() | st.floats()
CHOICES = st.lists(WORDS, max_size=4) | JSON
TITLED = st.lists(st.fixed_dictionaries({"const": WORDS, "title": WORDS}), max_size=4) | JSON
FIELD = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean", "array", "object"]) | JSON},
    optional={
        "title": WORDS | JSON,
        "description": WORDS,
        "default": WORDS | NUMBERS | JSON,
        "enum": CHOICES,
        "enumNames": CHOICES,
        "oneOf": TITLED,
        "items": st.fixed_dictionaries({}, optional={"enum": CHOICES, "anyOf": TITLED}) | JSON,
        "format": st.sampled_from(["email", "uri", "date", "date-time", "password"]) | JSON,
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], NUMBERS | JSON),
        **dict.fromkeys(["minimum", "maximum"], NUMBERS | JSON),
    },
)
SCHEMA = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(WORDS, FIELD | JSON, max_size=3)},
    optional={"title": WORDS, "description": WORDS, "required": st.lists(WORDS) | JSON},
)


@given(WORDS, SCHEMA | st.dictionaries(st.text(), JSON))
def test_whatever_is_asked_is_shown_as_a_valid_form_without_links_or_not_at_all(
    message: str, schema: Any
) -> None:
    try:
        form = form_of(message, schema)
    except Unasked:
        return
    shown(form, message)
    for key, field in form["properties"].items():
        assert not LINK.search(field.get("title", key))
        items = field.get("items", {})
        titled = [one["title"] for one in (*field.get("oneOf", ()), *items.get("anyOf", ()))]
        listed = [*field.get("enum", ()), *items.get("enum", ())]
        read = [field.get("description"), field.get("default"), *titled, *listed]
        assert [one for one in read if isinstance(one, str) and LINK.search(one)] == []


@given(WORDS)
def test_a_text_without_links_is_still_there_to_read(given_text: str) -> None:
    plain = defanged(given_text)
    assert not LINK.search(plain)
    assert defanged(plain) == plain
    left = plain.replace("[:]", ":").replace("[.]", ".").replace("] (", "](")
    assert left == given_text.replace("[:]", ":").replace("[.]", ".").replace("] (", "](")


@pytest.mark.parametrize(
    ("link", "plain"),
    [
        ("https://a.example.com/x.html?q=1", "https[:]//a[.]example[.]com/x.html?q=1"),
        ("see www.example.com.", "see www[.]example.com."),
        ("MAILTO:ada@example.com", "MAILTO[:]ada@example.com"),
        ("[here](javascript:x)", "[here] (javascript:x)"),
        ("src/a.py:10 and 1 < 2", "src/a.py:10 and 1 < 2"),
    ],
)
def test_links_become_text(link: str, plain: str) -> None:
    assert defanged(link) == plain


# --- what is kept of a form -----------------------------------------------------------------------


def test_everything_that_the_protocol_knows_is_kept() -> None:
    schema = {
        "type": "object",
        "title": "About you",
        "description": "For the record.",
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 9},
            "mail": {"type": "string", "format": "email", "description": "Where to write"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 7},
            "size": {"type": "number", "minimum": 0.5},
            "sure": {"type": "boolean", "default": True},
            "tea": {"type": "string", "enum": ["green", "black"], "default": "black"},
            "cup": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
            "with": {
                "type": "array",
                "items": {"type": "string", "enum": ["milk", "sugar"]},
                "minItems": 1,
                "maxItems": 2,
                "default": ["milk"],
            },
            "and": {"type": "array", "items": {"anyOf": [{"const": "c", "title": "Cake"}]}},
        },
        "required": ["name", "tea"],
    }
    assert form_of("Tea?", schema) == schema
    shown(schema)


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ({"enum": ["a", "b"], "enumNames": ["A", "B"]}, {"oneOf": [["a", "A"], ["b", "B"]]}),
        ({"enum": ["a", "b"], "enumNames": ["A"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a", "b", "a"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a://b.c"]}, {"oneOf": [["a://b.c", "a[:]//b[.]c"]]}),
        ({"default": "a://b.c"}, {}),
        ({"default": 5}, {}),
        ({"pattern": "(a+)+$", "x": 1, "minLength": -1, "maxLength": True, "format": "x"}, {}),
    ],
)
def test_what_is_odd_in_a_text_is_made_plain(field: Any, kept: Any) -> None:
    made = form_of("Well?", text(**field))["properties"]["value"]
    if "oneOf" in made:
        made["oneOf"] = [[one["const"], one["title"]] for one in made["oneOf"]]
    assert made == {"type": "string", **kept}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "array", "items": {}},
        fields(inner=fields(a={"type": "string"})),
        fields(free={"type": "array", "items": {"type": "string"}}),
        fields(none={"type": "null"}),
        fields(numbers={"type": "string", "enum": [1, 2]}),
        fields(nothing={"type": "string", "enum": []}),
        fields(**{f"field{n}": {"type": "string", "description": "x" * 900} for n in range(60)}),
    ],
)
def test_what_is_no_form_is_refused(schema: Any) -> None:
    with pytest.raises(Unasked):
        form_of("Well?", schema)


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "schema"),
    [
        ("Sign in", fields(password={"type": "string"})),
        ("Sign in", fields(userPassword={"type": "string"})),
        ("Sign in", fields(api_key={"type": "string"})),
        ("Sign in", fields(a={"type": "string", "title": "API-Key"})),
        ("Sign in", fields(a={"type": "string", "description": "Your access token for it."})),
        ("Sign in", fields(a={"type": "string", "format": "password"})),
        ("Sign in", fields(githubToken={"type": "string"})),
        ("Sign in", fields(pin={"type": "integer"})),
        ("Sign in", fields(name={"type": "string"}, otp={"type": "string"})),
        ("Please enter your password", text()),
        ("What is your GitHub token?", text()),
        ("What's the passphrase for the key", text()),
        ("Paste the API key here:", text()),
        ("Well?", {**text(), "description": "Enter the one-time code."}),
    ],
)
def test_a_form_that_asks_for_a_secret_is_refused(message: str, schema: Any) -> None:
    with pytest.raises(Unasked, match="may not ask for passwords"):
        form_of(message, schema)


@pytest.mark.parametrize(
    ("message", "schema"),
    [
        ("What should the minimum password length be?", text()),
        ("How are the tokens counted?", fields(max_tokens={"type": "integer"})),
        ("Where should the new API key be stored?", text()),
        ("Reset the password?", fields(password={"type": "boolean"})),
        ("Which secret is to be rotated?", fields(secret={"type": "string", "enum": ["a", "b"]})),
        ("Which key opens the menu?", fields(key={"type": "string"})),
        ("Pin which version?", text(title="Version to pin")),
    ],
)
def test_a_question_about_secrets_is_no_question_for_one(message: str, schema: Any) -> None:
    shown(form_of(message, schema), message)


# --- answers --------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
WHOLE = st.integers(-5, 5)
ASKED_FIELD = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": WHOLE, "maxLength": WHOLE}
    ),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(NAMES, min_size=1)}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": WHOLE, "maximum": WHOLE},
    ),
    st.just({"type": "boolean"}),
    st.fixed_dictionaries(
        {
            "type": st.just("array"),
            "items": st.fixed_dictionaries({"enum": st.lists(NAMES, min_size=1)}),
        },
        optional={"minItems": WHOLE, "maxItems": WHOLE},
    ),
)
ASKED = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": required,
    },
    st.dictionaries(NAMES, ASKED_FIELD, max_size=3),
    st.lists(NAMES),
)
VALUE = NAMES | WHOLE | st.booleans() | st.floats(-5, 5) | st.lists(NAMES | WHOLE, max_size=3)


@given(ASKED, st.dictionaries(NAMES, VALUE, max_size=3))
def test_what_was_filled_in_is_taken_exactly_if_it_fits_the_form(asked: Any, content: Any) -> None:
    form = form_of("Well?", asked)
    given_values = {name: content[name] for name in form["properties"] if name in content}
    # a whole number written as 1.0 is one to JSON Schema, and none here
    assume(not any(isinstance(v, float) and v.is_integer() for v in given_values.values()))
    expected = jsonschema.Draft202012Validator(form).is_valid(given_values)
    try:
        assert content_of(content, form) == given_values
    except Unanswered:
        assert not expected
    else:
        assert expected


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        ("email", "ada@example.com", "ada"),
        ("uri", "https://example.com", "example com"),
        ("date", "2026-11-30", "2026-11-31"),
        ("date-time", "2026-11-30T10:00:00Z", "2026-11-30"),
        ("date-time", "2026-11-30T10:00:00+01:00", "2026-11-30T10:00:00"),
    ],
)
def test_a_text_has_the_form_that_was_asked_for(format: str, right: str, wrong: str) -> None:
    form = form_of("Well?", text(format=format))
    assert content_of({"value": right}, form) == {"value": right}
    with pytest.raises(Unanswered):
        content_of({"value": wrong}, form)


def test_null_is_nothing_and_what_was_not_asked_for_is_left_out() -> None:
    form = form_of("Well?", fields(a={"type": "string"}, b={"type": "boolean"}))
    assert content_of({"a": None, "b": True, "c": "?"}, form) == {"b": True}
    assert answer_of({"action": "accept"}, form) == Answer("accept")
    assert answer_of({"action": "accept", "content": None}, form) == Answer("accept")


@given(JSON)
def test_only_the_three_actions_are_answers(result: Any) -> None:
    known = ("accept", "decline", "cancel")
    assume(not (isinstance(result, dict) and result.get("action") in known))
    for form in (None, form_of("Well?", text())):
        with pytest.raises(Unanswered, match="could be understood"):
            answer_of(result, form)


@given(st.sampled_from(["accept", "decline", "cancel"]), JSON)
def test_content_counts_only_if_it_was_asked_for_and_accepted(action: Any, content: Any) -> None:
    assert answer_of({"action": action, "content": content}) == Answer(action)
    form = {**form_of("Well?", text()), "required": ["value"]}
    if action != "accept":
        assert answer_of({"action": action, "content": content}, form) == Answer(action)
    elif not isinstance(content, dict) or not isinstance(content.get("value"), str):
        with pytest.raises(Unanswered, match="no valid answer"):
            answer_of({"action": action, "content": content}, form)
