"""Methods with model-specific sites in every construct, for a test to plant into a published runner. Ours, all of it.

`x` is a number, `xs` a list of numbers. What a method returns, sets and raises must be the same after extraction.
"""

import contextlib


def _talks(model):
    return getattr(model, "talker_mtp", None) is not None


def _asks(model, name):
    return getattr(model, name, None) is not None


class Planted:
    # -- tests of the class

    def class_name(self, x):
        if self.model.__class__.__name__ == "NewTalkerForGeneration":
            x = self.model.twist(x)
        return x

    def class_name_reversed(self, x):
        if type(self.model).__qualname__ != "NewTalkerForGeneration":
            return x
        return x + 1

    def one_of_two_classes(self, x):
        if self.model.__class__.__name__ in ("NewTalkerForGeneration", "MiMoAudioForConditionalGeneration"):
            x = x + 1
        return x

    def type_name(self, x):
        if type(self.model).__name__ == "NewTalkerForGeneration":
            x = x + 1
        return x

    def class_name_in_a_local(self, x):
        name = type(self.model).__name__
        if name == "NewTalkerForGeneration":
            x = x + 1
        return x

    def class_in_a_local(self, x):
        cls = type(self.model)
        if cls.__name__ == "NewTalkerForGeneration":
            x = x + 1
        return x

    def part_of_a_class_name(self, x):
        if self.model.__class__.__name__.startswith("NewTalker"):
            x = x + 1
        return x

    def part_of_a_class_name_by_in(self, x):
        if "Talker" in type(self.model).__name__:
            x = x + 1
        return x

    def matched_class_name(self, x):
        match type(self.model).__name__:
            case "NewTalkerForGeneration":
                x = x + 1
            case _:
                x = x + 2
        return x

    def instance(self, x):
        from vllm_omni.worker.planted_model import PlantedModel

        if isinstance(self.model, PlantedModel):
            x = x + 1
        return x

    def architecture(self, x):
        if self.model_config.hf_config.architectures[0] == "MiMoAudioModel":
            x = x + 1
        return x

    # -- probes through something else

    def _model_has(self, name):
        return getattr(self.model, name, None) is not None

    def helper(self, x):
        if self._model_has("talker_mtp"):
            x = self.model.talker_mtp(x)
        return x

    @property
    def talks(self):
        return getattr(self.model, "talker_mtp", None) is not None

    def behind_a_property(self, x):
        if self.talks:
            x = x + 1
        return x

    def function(self, x):
        if _talks(self.model):
            x = self.model.talker_mtp(x)
        return x

    def function_with_a_name(self, x):
        model = self.model
        if _asks(model, "talker_mtp"):
            x = model.talker_mtp(x)
        return x

    def alias(self, x):
        m = self.model
        if hasattr(m, "talker_mtp"):
            x = m.talker_mtp(x)
        return x

    def get_model_call(self, x):
        model = self.get_model()
        if x and model.has_preprocess:
            x = x + 1
        return x

    def unwrapped(self, x):
        model = self.model.unwrap() if hasattr(self.model, "unwrap") else self.model
        if hasattr(model, "talker_mtp"):
            x = model.talker_mtp(x)
        return x

    def _loaded(self):
        return self.model

    def model_of_a_method(self, x):
        if hasattr(self._loaded(), "talker_mtp"):
            x = self._loaded().talker_mtp(x)
        return x

    def model_of_a_tuple(self, x):
        model, y = self.model, 1
        if hasattr(model, "talker_mtp"):
            x = model.talker_mtp(x) + y
        return x

    def attributes(self, x):
        if "talker_mtp" in dir(self.model):
            x = x + 1
        return x

    @staticmethod
    def static(model, x):
        if hasattr(model, "talker_mtp"):
            x = model.talker_mtp(x)
        return x

    # -- names that are no literals

    def names_in_a_loop(self, x):
        for name in ("talker_mtp", "talker"):
            if getattr(self.model, name, None) is not None:
                x = x + 1
        return x

    def name_in_a_local(self, x):
        name = "talker_mtp"
        if hasattr(self.model, name):
            x = x + 1
        return x

    def name_made_at_run_time(self, x):
        if hasattr(self.model, "talker" + "_mtp" * x):
            x = x + 1
        return x

    def unknown_capability(self, x):
        if getattr(self.model, "wants_silence", False):
            x = x + 1
        return x

    # -- scopes

    def nested_function(self, x):
        def inner(y):
            if hasattr(self.model, "talker_mtp"):
                return y + 1
            return y

        return inner(x)

    def nested_function_with_nonlocal(self, x):
        def inner():
            nonlocal x
            if hasattr(self.model, "talker_mtp"):
                x = self.model.talker_mtp(x)

        inner()
        return x

    def in_a_lambda(self, x):
        f = lambda y: y + 1 if hasattr(self.model, "talker_mtp") else y  # noqa: E731
        return f(x)

    def in_a_comprehension(self, xs):
        return [x + 1 if hasattr(self.model, "talker_mtp") else x for x in xs]

    def in_its_condition(self, xs):
        return [x for x in xs if getattr(self.model, "talker_mtp_output_key", None) != x]

    def default_argument(self, x):
        def inner(y, on=hasattr(self.model, "talker_mtp")):  # noqa: B008
            return y + 1 if on else y

        return inner(x)

    def decorator_argument(self, x):
        def add(n):
            return lambda f: lambda y: f(y) + n

        @add(1 if hasattr(self.model, "talker_mtp") else 0)
        def inner(y):
            return y

        return inner(x)

    # -- bindings

    def walrus(self, x):
        if (mtp := getattr(self.model, "talker_mtp", None)) is not None:
            x = mtp(x)
        return x

    def walrus_after_a_test(self, x):
        if x > 1 and (mtp := getattr(self.model, "talker_mtp", None)) is not None:
            x = mtp(x)
        else:
            mtp = None
        return x, mtp is None

    def deleted(self, x):
        y = 1
        if hasattr(self.model, "talker_mtp"):
            x = x + y
            del y
        return x

    def augmented(self, x):
        if hasattr(self.model, "talker_mtp"):
            x += self.model.talker_mtp(x)
        return x

    # -- ways out

    def guard_that_returns(self, x):
        if not hasattr(self.model, "talker_mtp"):
            return x
        y = self.model.talker_mtp(x)
        return y + 1

    def returns_early(self, x):
        if hasattr(self.model, "talker_mtp"):
            return self.model.talker_mtp(x)
        self.count = getattr(self, "count", 0) + 1
        return x

    def breaks_and_continues(self, xs):
        out = []
        for x in xs:
            if hasattr(self.model, "talker_mtp"):
                if x < 0:
                    continue
                if x > 5:
                    break
            out.append(x)
        else:
            out.append("end")
        return out

    def raises(self, x):
        if hasattr(self.model, "talker_mtp") and x > 5:
            raise ValueError(x)
        return x

    def in_a_try(self, x):
        try:
            if hasattr(self.model, "talker_mtp"):
                x = self.model.talker_mtp(x)
        except ValueError:
            x = -1
        finally:
            self.seen = x
        return x

    def in_a_finally(self, x):
        try:
            x = x + 1
        finally:
            if hasattr(self.model, "talker_mtp"):
                x = self.model.talker_mtp(x)
                self.seen = x
        return x

    def returns_out_of_a_with(self, x):
        with contextlib.suppress(ValueError):
            if hasattr(self.model, "talker_mtp"):
                x = self.model.talker_mtp(x)
                return x  # noqa: RET504
            x = x + 100
        return x

    def caught_attribute_error(self, x):
        try:
            mtp = self.model.talker_mtp
        except AttributeError:
            return x
        return mtp(x)

    # -- conditions

    def elif_branch(self, x):
        if x > 3:
            x = 3
        elif hasattr(self.model, "talker_mtp"):
            x = self.model.talker_mtp(x)
        else:
            x = 0
        return x

    def conditional_expression(self, x):
        return self.model.talker_mtp(x) if hasattr(self.model, "talker_mtp") else x

    def loop_condition(self, x):
        while hasattr(self.model, "talker_mtp") and x < 5:
            x += 1
        return x

    def assertion(self, x):
        assert hasattr(self.model, "talker_mtp"), f"none in {self.model.__class__.__name__}"
        return x

    def in_an_f_string(self, x):
        return f"{getattr(self.model, 'talker_mtp_output_key', None)} {x}"

    def shared_line(self, x):
        y = 1; z = hasattr(self.model, "talker_mtp")  # fmt: skip  # noqa: E702
        if z: x = x + y  # fmt: skip  # noqa: E701
        return x

    # -- frames

    async def coroutine(self, x):
        if hasattr(self.model, "talker_mtp"):
            x = self.model.talker_mtp(x)
        return x

    def generator(self, xs):
        for x in xs:
            if hasattr(self.model, "talker_mtp"):
                yield self.model.talker_mtp(x)
            yield x

    def of_the_part(self, x):
        talker = getattr(self.model, "talker", None)
        if talker is not None and hasattr(talker, "text_step"):
            x = talker.text_step(x)
        return x
