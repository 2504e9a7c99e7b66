"""Hand a new request's prefill tokens on where its data is wrapped field by field: the V2 runner needs them.

Before:
    data = OmniNewRequestData(
        req_id=nr.req_id,
        block_ids=nr.block_ids,
        lora_request=nr.lora_request,
        prompt_embeds=embeds,
    )

After:
    data = OmniNewRequestData(
        req_id=nr.req_id,
        block_ids=nr.block_ids,
        lora_request=nr.lora_request,
        prefill_token_ids=nr.prefill_token_ids,
        prompt_embeds=embeds,
    )

A call that names the field already, passes `**` on, or takes no field as it is from one object, stays.
"""

from __future__ import annotations

import ast
import io
from collections import Counter
from collections.abc import Iterator

from omni_migrate.facts.syntax import walk

FIELD = "prefill_token_ids"
AS_IT_IS = 3
"""How many fields a call takes under their own name from one object, to be a wrapping of that object."""


def carry_prefill_tokens(source: str, wrapper: str) -> str:
    """`source` is a module that wraps requests in the class `wrapper`; other lines stay byte for byte."""
    lines = list(io.StringIO(source, newline=""))
    inserted: list[tuple[int, int, str]] = []
    for call, origin in wrappings(ast.parse(source), wrapper):
        value = _last_taken(call, origin)
        inserted.append((value.end_lineno or 0, value.end_col_offset or 0, f"{FIELD}={origin}.{FIELD}"))
    for number, at, text in sorted(inserted, reverse=True):
        encoded = lines[number - 1].encode()
        before, after = encoded[:at].decode(), encoded[at:].decode()
        code = after.split("#")[0].strip()
        begins = before.lstrip().count("=") == 1 and not before.lstrip().startswith(("(", wrapper))
        if begins and code in ("", ","):
            body = after.rstrip("\r\n")
            end = after[len(body) :]
            indent = before[: len(before) - len(before.lstrip())]
            rest = body if code else f",{body}"
            lines[number - 1] = f"{before}{rest}{end}{indent}{text}{',' if code else ''}{end}"
        else:
            lines[number - 1] = f"{before}, {text}{after}"
    return "".join(lines)


def carried_lines(source: str, wrapper: str) -> list[tuple[int, int]]:
    """The lines of `source` that `carry_prefill_tokens` changes or writes after, as 1-based inclusive ranges."""
    ends = (_last_taken(call, origin).end_lineno or 0 for call, origin in wrappings(ast.parse(source), wrapper))
    return sorted({(line, line) for line in ends})


def _last_taken(call: ast.Call, origin: str) -> ast.expr:
    return [keyword for keyword in call.keywords if _taken_from(keyword) == origin][-1].value


def wrappings(tree: ast.AST, wrapper: str) -> Iterator[tuple[ast.Call, str]]:
    """Calls of the class that wrap an object without its prefill tokens, with the object's name."""
    for node in walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", getattr(node.func, "attr", "")) != wrapper:
            continue
        if any(keyword.arg in (None, FIELD) for keyword in node.keywords):
            continue
        origins = Counter(origin for keyword in node.keywords if (origin := _taken_from(keyword)))
        for origin, count in origins.most_common(1):
            if count >= AS_IT_IS:
                yield node, origin


def _taken_from(keyword: ast.keyword) -> str:
    """`lora_request=nr.lora_request` -> `nr`."""
    value = keyword.value
    if isinstance(value, ast.Attribute) and value.attr == keyword.arg and isinstance(value.value, ast.Name):
        return value.value.id
    return ""
