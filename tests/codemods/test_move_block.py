"""What `move_block` makes of a method, before and after; what it leaves alone comes first."""

from __future__ import annotations

from textwrap import dedent

import pytest
from running import outcomes

from codemods.move_block import Moved, move_block
from omni_migrate.facts.flow import Refusal


def source_and_lines(text: str) -> tuple[str, int, int]:
    """The dedented method, with the lines between `#<` and `#>` as the block; the marks are taken out."""
    lines = dedent(text).lstrip("\n").splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.strip() == "#<")
    del lines[first]
    last = next(i for i, line in enumerate(lines) if line.strip() == "#>")
    del lines[last]
    return "".join(lines), first + 1, last


def move(text: str, **options: object) -> Moved | Refusal:
    return move_block(*source_and_lines(text), "hook", **options)  # type: ignore[arg-type]


def assert_moved(text: str, method: str, hook: str, **options: object) -> Moved:
    moved = move(text, **options)
    assert isinstance(moved, Moved), moved
    assert moved.method == dedent(method).lstrip("\n")
    assert moved.hook == dedent(hook).lstrip("\n")
    return moved


def assert_same(text: str) -> None:
    """Moved and doing the same, or refused: for the minimal cases that the property tests found."""
    source, first, last = source_and_lines(text)
    moved = move_block(source, first, last, "hook")
    if isinstance(moved, Moved):
        assert outcomes(moved.method, moved.hook) == outcomes(source)


# -- left alone

REFUSED = {
    "the function has no receiver": """
        def f():
            #<
            g()
            #>
        """,
    "its lines are not whole statements of one block": """
        def f(self, a):
            x = [
                #<
                a,
                #>
            ]
        """,
    "it stands on the line of its header": """
        def f(self, a):
            if a:
                pass
            #<
            else: self.b()
            #>
        """,
    "an elif is not a statement of its own": """
        def f(self, a):
            if a:
                pass
            #<
            elif self.b:
                pass
            #>
        """,
    "it already calls _adapter.hook": """
        def f(self):
            #<
            x = self._adapter.hook(self)
            #>
            return x
        """,
    "it is the method's docstring": '''
        def f(self):
            #<
            """What it does."""
            #>
            return 1
        ''',
    "it yields or awaits": """
        def f(self):
            #<
            yield 1
            #>
        """,
    "it rebinds step of an outer scope": """
        def f(self):
            #<
            global step
            #>
            step = 1
        """,
    "it imports everything from a module": """
        def f(self):
            #<
            from os import *
            #>
        """,
    "locals() means another frame once it is moved": """
        def f(self):
            #<
            self.note(locals())
            #>
        """,
    "the method calls locals(), which sees its locals": """
        def f(self):
            #<
            x = 1
            #>
            return locals()
        """,
    "it reads super, which means another class once it is moved": """
        def f(self):
            #<
            super().f()
            #>
        """,
    "it reads __class__, which means another class once it is moved": """
        def f(self):
            #<
            self.note(__class__)
            #>
        """,
    "__secret is mangled with the name of its class": """
        def f(self):
            #<
            self.__secret = 1
            #>
        """,
    "an f-string shows the text of an expression with self": """
        def f(self):
            #<
            self.note(f"{self.n=}")
            #>
        """,
    "it rebinds self": """
        def f(self):
            #<
            self = 1
            #>
        """,
    "the method rebinds self": """
        def f(self, other):
            self = other
            #<
            self.g()
            #>
        """,
    "the block is never reached": """
        def f(self):
            return 1
            #<
            self.g()
            #>
        """,
    "x is assigned here and read where an exception leads": """
        def f(self):
            x = 0
            try:
                #<
                x = 1
                self.g()
                #>
            except ValueError:
                return x
        """,
    "x is assigned here and read after a return, in a finally": """
        def f(self):
            x = 0
            try:
                #<
                x = self.g()
                return x
                #>
            finally:
                self.note(x)
        """,
    "x may be unbound where the block begins": """
        def f(self, a):
            if a:
                x = 1
            #<
            self.note(x)
            #>
        """,
    "x may be unbound where the block ends": """
        def f(self, a):
            x = 1
            #<
            if a:
                del x
            #>
            return x
        """,
    "x is shared with a function that outlives the block": """
        def f(self):
            x = 1
            #<
            g = lambda: x
            #>
            x = 2
            return g()
        """,
    "x is shared with a function defined outside the block": """
        def f(self):
            x = 1
            g = lambda: x
            #<
            x = 2
            self.note(g())
            #>
            return x
        """,
    "x is a local of the method only because of this block": """
        def f(self, a):
            if a:
                return x
            #<
            x = 1
            self.note(x)
            #>
        """,
    "an async generator cannot return a value": """
        async def f(self, a):
            yield 1
            #<
            if a:
                return
            #>
            self.g()
        """,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason):
    assert isinstance(move(REFUSED[reason]), Refusal)
    assert move(REFUSED[reason]).reason == reason


@pytest.mark.parametrize("decorator", ["staticmethod", "classmethod"])
def test_refused_where_nothing_is_an_instance(decorator):
    moved = move_block(f"@{decorator}\ndef f(cls, a):\n    cls.g(a)\n", 3, 3, "hook")
    assert moved == Refusal("the function has no receiver", 3)


def test_refused_where_it_shares_a_line():
    source = 'def f(self):\n    self.note("""\n    """); self.b()\n'
    assert move_block(source, 3, 3, "hook") == Refusal("it shares a line with another statement", 3)


# -- moved


def test_effects_only():
    assert_moved(
        """
        def load_model(self, *args):
            super().load_model(*args)
            #<
            talker_mtp = getattr(self.model, "talker_mtp", None)
            if talker_mtp is not None:
                self.talker_mtp = talker_mtp
            #>
        """,
        """
        def load_model(self, *args):
            super().load_model(*args)
            self._adapter.hook(self)
        """,
        '''
        def hook(self, runner):
            """Adopt the talker."""
            talker_mtp = getattr(runner.model, "talker_mtp", None)
            if talker_mtp is not None:
                runner.talker_mtp = talker_mtp
        ''',
        docstring="Adopt the talker.",
    )


def test_locals_flow_in_and_out():
    assert_moved(
        """
        def f(self, a, b):
            x = a
            #<
            x += b
            y, z = x, 1
            #>
            return x, y
        """,
        """
        def f(self, a, b):
            x = a
            x, y = self._adapter.hook(self, b, x)
            return x, y
        """,
        """
        def hook(self, runner, b, x):
            x += b
            y, z = x, 1
            return x, y
        """,
    )


def test_a_name_assigned_on_some_paths_goes_in_and_out():
    moved = move("""
        def f(self, a):
            x = 0
            #<
            if a:
                x = 1
            #>
            return x
        """)
    assert (moved.parameters, moved.returns) == (("a", "x"), ("x",))


def test_a_last_block_forwards_what_it_returns():
    assert_moved(
        """
        def f(self, a):
            b = self.g(a)
            #<
            if b:
                return b
            return a, b
            #>
        """,
        """
        def f(self, a):
            b = self.g(a)
            return self._adapter.hook(self, a, b)
        """,
        """
        def hook(self, runner, a, b):
            if b:
                return b
            return a, b
        """,
    )


def test_early_returns_breaks_and_continues_are_told_to_the_method():
    assert_moved(
        """
        def f(self, xs):
            y = 0
            for x in xs:
                #<
                if x == 1:
                    continue
                if x == 2:
                    break
                if x == 3:
                    return x, y
                for z in xs:
                    break
                y += x
                #>
            else:
                y = 9
            return y
        """,
        """
        def f(self, xs):
            y = 0
            for x in xs:
                flow, value = self._adapter.hook(self, xs, y, x)
                if flow == "return":
                    return value
                y, = value
                if flow == "break":
                    break
                if flow == "continue":
                    continue
            else:
                y = 9
            return y
        """,
        """
        def hook(self, runner, xs, y, x):
            if x == 1:
                return "continue", (y,)
            if x == 2:
                return "break", (y,)
            if x == 3:
                return "return", (x, y)
            for z in xs:
                break
            y += x
            return "next", (y,)
        """,
    )


def test_comments_and_formatting_travel_with_their_statements():
    assert_moved(
        """
        def f(self, a):
            self.b()

            # above the first moved statement
            #<
            if a:  # trailing
                self.c(  # inside
                    a,  # parentheses
                )
                # at the end of a branch
            # between
            elif self.d:
                pass
            # before else
            else:
                self.e = \\
                    1
            #>
            # above the rest
            self.g()
            # footer
        """,
        """
        def f(self, a):
            self.b()

            self._adapter.hook(self, a)
            # above the rest
            self.g()
            # footer
        """,
        """
        def hook(self, runner, a):
            # above the first moved statement
            if a:  # trailing
                runner.c(  # inside
                    a,  # parentheses
                )
                # at the end of a branch
            # between
            elif runner.d:
                pass
            # before else
            else:
                runner.e = \\
                    1
        """,
    )


def test_a_long_call_is_broken():
    moved = move(
        """
        def f(self, first, second):
            if first:
                #<
                x = first + second
                #>
                return x
        """,
        line_length=50,
    )
    assert "        x = self._adapter.hook(\n            self, first, second\n        )\n" in moved.method


def test_the_text_of_strings_stays_and_the_indentation_follows():
    source = 'def f(self, a):\n    if a:\n        if self.b:\n            self.c("""x\n self.d\n  """)\n'
    moved = move_block(source, 3, 6, "hook")
    assert moved.hook == 'def hook(self, runner):\n    if runner.b:\n        runner.c("""x\n self.d\n  """)\n'
    assert moved.method == "def f(self, a):\n    if a:\n        self._adapter.hook(self)\n"


def test_decorated_functions_and_nested_classes_move_whole():
    assert_moved(
        """
        @traced
        def f(self):
            #<
            @self.wrap
            def g(x):
                return self.y + x

            class K:
                def get(self):
                    return self.z

            self.note(K, g)
            #>
        """,
        """
        @traced
        def f(self):
            self._adapter.hook(self)
        """,
        """
        def hook(self, runner):
            @runner.wrap
            def g(x):
                return runner.y + x

            class K:
                def get(self):
                    return self.z

            runner.note(K, g)
        """,
    )


def test_only_the_receiver_is_renamed():
    assert_moved(
        """
        def f(self, a):
            #<
            a.self(self=self, k=lambda self=self.n: self)
            match a:
                case K(self=1):
                    self.g(f"{self.x} self")
            #>
        """,
        """
        def f(self, a):
            self._adapter.hook(self, a)
        """,
        """
        def hook(self, runner, a):
            a.self(self=runner, k=lambda self=runner.n: self)
            match a:
                case K(self=1):
                    runner.g(f"{runner.x} self")
        """,
    )


@pytest.mark.parametrize(
    "binding",
    [
        "runner = 1",
        "import runner",
        "def runner(): pass",
        "try: pass\n    except E as runner: pass",
        "x = lambda runner: 1",
    ],
)
def test_names_that_are_taken_are_not_used_again(binding):
    moved = move_block(f"def f(self):\n    {binding}\n    self.g()\n", 2, 3 + binding.count("\n"), "hook")
    assert moved.hook.startswith("def hook(self, model_runner):\n")


def test_the_answer_has_names_of_its_own():
    moved = move("""
        def f(self, flow, value):
            #<
            if flow:
                return value
            #>
            return 2
        """)
    assert "flow_, outcome = self._adapter.hook(self, flow, value)\n" in moved.method


def test_a_receiver_by_another_name_and_a_local_named_self():
    moved = move_block("def f(this, /, self):\n    this.g(self)\n", 2, 2, "hook")
    assert moved.method == "def f(this, /, self):\n    this._adapter.hook(this, self)\n"
    assert moved.hook == "def hook(adapter, runner, self):\n    runner.g(self)\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["    ", "\t", "  "])
def test_line_ends_and_indentation_of_the_source_are_kept(newline, indent):
    lines = [
        "def f(self, a):",
        f"{indent}x = a",
        f"{indent}if x:",
        f'{indent * 2}y = """1',
        '"""',
        f"{indent}return x",
        "",
    ]
    moved = move_block(newline.join(lines), 3, 5, "hook")
    assert moved.method == newline.join([*lines[:2], f"{indent}self._adapter.hook(self, x)", *lines[5:]])
    assert moved.hook == newline.join(["def hook(self, runner, x):", *lines[2:5], ""])


def test_statements_of_one_line_move_together():
    moved = move_block("def f(self, größe):\n    x = größe; self.g(x)  # é\n    return x\n", 2, 2, "hook")
    assert moved.method == "def f(self, größe):\n    x = self._adapter.hook(self, größe)\n    return x\n"
    assert moved.hook == "def hook(self, runner, größe):\n    x = größe; runner.g(x)  # é\n    return x\n"


def test_a_suite_on_the_line_of_its_header_moves_with_it():
    moved = move_block("def f(self, x):\n    if x: return self.y\n    self.g()\n", 2, 2, "hook")
    assert moved.hook == 'def hook(self, runner, x):\n    if x: return "return", runner.y\n    return "next", ()\n'


def test_what_stands_around_the_method_stays():
    source = "# above\n@deco  # d\n# between\ndef f(self):  # head\n    self.g()\n# below\n"
    moved = move_block(source, 5, 5, "hook")
    assert moved.method == source.replace("self.g()", "self._adapter.hook(self)")
    assert moved.hook == "def hook(self, runner):\n    runner.g()\n"


def test_each_way_out_brings_what_is_read_there():
    moved = move("""
        def f(self, xs):
            y = 0
            for x in xs:
                #<
                if x:
                    y = 2
                    break
                z = x
                #>
                self.note(z)
            return y
        """)
    assert 'if flow == "break":\n            y, = value\n            break\n        y, z = value\n' in moved.method
    assert 'return "break", (y,)\n' in moved.hook
    assert 'return "next", (y, z)\n' in moved.hook


def test_a_block_that_never_ends_leaves_without_a_question():
    assert_moved(
        """
        def f(self, xs):
            for x in xs:
                #<
                y = x
                if y:
                    continue
                break
                #>
            else:
                y = 0
            return y
        """,
        """
        def f(self, xs):
            for x in xs:
                flow, value = self._adapter.hook(self, x)
                if flow == "break":
                    y, = value
                    break
                continue
            else:
                y = 0
            return y
        """,
        """
        def hook(self, runner, x):
            y = x
            if y:
                return "continue", ()
            return "break", (y,)
        """,
    )


# -- precise enough: each of these looks like a reason to refuse


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 0
                try:
                    #<
                    self.n = a
                    x = self.risky(a)
                    #>
                except ValueError:
                    return x
                return x + 1
            """,
            id="assigned by the last thing that can raise",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 0
                try:
                    #<
                    x = self.risky(a)
                    self.note(x)
                    #>
                finally:
                    self.note(b)
                return x
            """,
            id="read after a finally but not in it",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 0
                def f():
                    return x
                #<
                x = a
                self.note(x)
                #>
                return f()
            """,
            id="a function that is called later sees what the block returned",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 0
                #<
                def f():
                    nonlocal x
                    x += a
                f()
                #>
                x += 1
                return x
            """,
            id="a function that ends with the block",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 1
                #<
                y = sum(x + i for i in xs) + max(xs, key=lambda i: i * x) + (lambda q: q + x)(a)
                #>
                x = 2
                return x + y
            """,
            id="generators and lambdas used up on the spot",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                #<
                match a:
                    case 0:
                        x = 1
                    case _:
                        x = 2
                #>
                return x
            """,
            id="a match that always binds",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                for i in xs:
                    #<
                    if i == a:
                        continue
                    if i == b:
                        break
                    x = i
                    #>
                    self.note(x)
            """,
            id="unbound only where it continues or breaks",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                #<
                if a:
                    return b
                x = 1
                #>
                return x
            """,
            id="unbound only where it returns",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                y = [i for i in xs]
                #<
                for i in xs:
                    self.note(i)
                #>
                return y
            """,
            id="a name that a comprehension elsewhere has for itself",
        ),
    ],
)
def test_not_refused(text):
    source, first, last = source_and_lines(text)
    moved = move_block(source, first, last, "hook")
    assert isinstance(moved, Moved), moved
    assert outcomes(moved.method, moved.hook) == outcomes(source)


# -- faults of the past: moved, these did something else


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 1
                #<
                g = lambda: x
                #>
                def f():
                    nonlocal x
                    x = 2
                f()
                return g()
            """,
            id="a function defined later rebinds what one of the block captured",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 1
                #<
                def f():
                    return lambda: x
                g = f()
                #>
                x = 2
                return g()
            """,
            id="a function that is only called hands out another one",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 1
                #<
                def f():
                    return x
                def g():
                    return f()
                #>
                x = 2
                return g()
            """,
            id="a function that is only called, by one that outlives the block",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 1
                #<
                def f():
                    yield x
                g = f()
                #>
                x = 2
                return list(g)
            """,
            id="a generator function that is only called",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                x = 1
                #<
                g = ((x := i) for i in xs)
                #>
                return list(g), x
            """,
            id="a generator binds a name of the method when it runs",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                y = 1
                try:
                    try:
                        #<
                        y = a + 1
                        return y
                        #>
                    finally:
                        self.note(y)
                finally:
                    k = y
                return k
            """,
            id="a name read by a finally after the block returned",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                with suppress(AssertionError):
                    assert a, (x := b)
                #<
                y = x
                #>
                return y
            """,
            id="the message of an assert is evaluated when it fails",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                i = 0
                #<
                xs[i] += (i := a - a)
                #>
                return i
            """,
            id="the place of an augmented assignment comes before its value",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                with suppress(ValueError), self.cm(self.risky(self.note(self.note(self.risky(0)))) + (x := 1)):
                    pass
                #<
                y = x
                #>
                return y
            """,
            id="a later item of a with runs inside the suppress before it",
        ),
        pytest.param(
            """
            def method(self, a, b, xs):
                e = 1
                for i in xs:
                    try:
                        raise ValueError(i)
                    except ValueError as e:
                        continue
                #<
                y = e
                #>
                return y
            """,
            id="the name of an exception is unbound however its handler is left",
        ),
    ],
)
def test_found_faults(text):
    assert_same(text)
