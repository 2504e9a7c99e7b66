"""Cutting a method out of its file and putting it back, byte for byte."""

from __future__ import annotations

import ast

import pytest

from omni_migrate.plan.method_text import cut, find_class, method_span, replace_lines, shift

CLASS = '''class Runner:
    @decorated
    @twice(
        1,
    )
    def method(self):
        """Doc
      with a line further left."""
        text = f"""
 {self}
"""
        return text  # end

    def after(self):
        pass
'''


def method_of(source, name="method"):
    return next(node for node in ast.parse(source).body[0].body if getattr(node, "name", "") == name)


def test_a_method_begins_with_its_first_decorator():
    assert method_span(method_of(CLASS)) == (2, 12)


def test_cut_and_shifted_back_is_the_text_that_was_there():
    lines = CLASS.splitlines(keepends=True)
    source = cut(lines, method_of(CLASS))
    assert source.startswith("@decorated\n@twice(\n    1,\n)\ndef method(self):\n")
    assert "\n      with a line further left." in source and "\n {self}\n" in source
    assert shift(source, 4) == "".join(lines[1:12])


@pytest.mark.parametrize(
    ("source", "columns", "shifted"),
    [
        ("a = 1\n\nb = 2\n", 4, "    a = 1\n\n    b = 2\n"),
        ("    a = 1\n    b = 2\n", -4, "a = 1\nb = 2\n"),
        ('a = """\nx\n"""\nb\n', 4, '    a = """\nx\n"""\n    b\n'),
        ('a = f"""\nx {\n1}\n"""\nb\n', 2, '  a = f"""\nx {\n1}\n"""\n  b\n'),
        ("a = (\n  1)\n", 2, "  a = (\n    1)\n"),
        ("    if a:\n  # further left\n        b\n", -4, "if a:\n# further left\n    b\n"),
        ("a\r\nb\r\n", 2, "  a\r\n  b\r\n"),
        ("a = 'x\\\ny'\nb\n", 2, "  a = 'x\\\ny'\n  b\n"),
    ],
)
def test_shift_leaves_the_inside_of_strings(source, columns, shifted):
    assert shift(source, columns) == shifted


@pytest.mark.parametrize(
    ("text", "first", "last", "new", "newline", "expected"),
    [
        ("a\nb\nc\n", 2, 2, "x\n", "\n", "a\nx\nc\n"),
        ("a\nb\nc\n", 2, 2, "", "\n", "a\nc\n"),
        ("a\nb\nc\n", 2, 1, "x\n", "\n", "a\nx\nb\nc\n"),
        ("a\r\nb\r\n", 2, 1, "x\ny\n", "\r\n", "a\r\nx\r\ny\r\nb\r\n"),
        ("a\nb", 3, 2, "x\n", "\n", "a\nb\nx\n"),
        ("a\x0cb\nc\n", 2, 2, "x\n", "\n", "a\x0cb\nx\n"),
        ("", 1, 0, "x\n", "\n", "x\n"),
    ],
)
def test_replaced_lines(text, first, last, new, newline, expected):
    assert replace_lines(text, first, last, new, newline) == expected


def test_a_class_is_found_in_a_branch_too():
    tree = ast.parse("if x:\n    class A:\n        pass\n")
    assert find_class(tree, "A").lineno == 2
    assert find_class(tree, "B") is None
