"""A request that is wrapped field by field keeps its prefill tokens."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemods.carry_prefill_tokens import carry_prefill_tokens


@pytest.mark.parametrize(
    "source",
    [
        "x = Data(a=nr.a, b=nr.b, c=nr.c, prefill_token_ids=None)\n",
        "x = Data(a=nr.a, b=nr.b, c=nr.c, **rest)\n",
        "x = Data(a=nr.a, b=nr.b)\n",
        "x = Data(a=nr.b, b=nr.c, c=nr.a)\n",
        "x = Data(a=nr.a, b=other.b, c=third.c)\n",
        "x = Data(nr)\n",
        "x = Other(a=nr.a, b=nr.b, c=nr.c)\n",
    ],
)
def test_stays(source):
    assert carry_prefill_tokens(source, "Data") == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "x = Data(\n    a=nr.a,\n    b=nr.b,\n    c=nr.c,  # kept\n    d=made,\n)\n",
            "x = Data(\n    a=nr.a,\n    b=nr.b,\n    c=nr.c,  # kept\n"
            "    prefill_token_ids=nr.prefill_token_ids,\n    d=made,\n)\n",
        ),
        (
            "x = Data(\n    a=nr.a,\n    b=nr.b,\n    c=nr.c  # last\n)\n",
            "x = Data(\n    a=nr.a,\n    b=nr.b,\n    c=nr.c,  # last\n    prefill_token_ids=nr.prefill_token_ids\n)\n",
        ),
        (
            "x = module.Data(a=nr.a, b=nr.b, c=nr.c, d=made)\n",
            "x = module.Data(a=nr.a, b=nr.b, c=nr.c, prefill_token_ids=nr.prefill_token_ids, d=made)\n",
        ),
        (
            "x = Data(a=nr.a, b=nr.b,\n         c=nr.c)\n",
            "x = Data(a=nr.a, b=nr.b,\n         c=nr.c, prefill_token_ids=nr.prefill_token_ids)\n",
        ),
    ],
)
def test_the_tokens_come_after_the_last_field_that_is_taken_as_it_is(before, after):
    assert carry_prefill_tokens(before, "Data") == after


@given(
    taken=st.lists(st.sampled_from("abcdefgh"), min_size=3, unique=True),
    made=st.lists(st.sampled_from("stuv"), unique=True),
    split=st.booleans(),
    crlf=st.booleans(),
    trailing=st.booleans(),
)
def test_any_wrapping_gets_the_field_once_and_keeps_its_lines(taken, made, split, crlf, trailing):
    fields = [*(f"{name}=nr.{name}" for name in taken), *(f"{name}=make('é')" for name in made)]
    if split:
        text = "x = Data(\n" + "".join(f"    {field},  # {field}\n" for field in fields[:-1])
        text += f"    {fields[-1]}{',' if trailing else ''}\n)\n"
    else:
        text = f"x = Data({', '.join(fields)}{',' if trailing else ''})\n"
    text = text.replace("\n", "\r\n") if crlf else text
    result = carry_prefill_tokens(text, "Data")
    (call,) = [node for node in ast.walk(ast.parse(result)) if getattr(getattr(node, "func", None), "id", "") == "Data"]
    passed = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    before = {keyword.arg: ast.unparse(keyword.value) for keyword in ast.parse(text).body[0].value.keywords}
    assert passed == before | {"prefill_token_ids": "nr.prefill_token_ids"}
    assert carry_prefill_tokens(result, "Data") == result
    assert not crlf or "\n" not in result.replace("\r\n", "")
    if split:
        kept = set(result.splitlines())
        assert len(set(text.splitlines()) - kept) <= 1  # the comma of what was last
