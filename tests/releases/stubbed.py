"""Imports a tree's runners without vLLM and torch, and runs methods of them: `python stubbed.py ROOT < script`.

Whatever cannot be imported is made of stand-ins: classes that can be extended, called, subscripted and entered. The
script imports with `package("vllm_omni.worker...")`; no package's own `__init__` is run (they patch vLLM).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any

PACKAGE = "vllm_omni"


class _Kind(type):
    """The type of stand-ins: any attribute is another one."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: object) -> Any:
        return super().__new__(cls, name, bases, body)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: object) -> None: ...

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("stands_in") and len(args) == 1 and isinstance(args[0], (types.FunctionType, type)):
            return args[0]  # used as a decorator
        return super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __or__(cls, other: object) -> Any:
        return cls

    def __ror__(cls, other: object) -> Any:
        return cls


class _Thing:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "stands_in" not in type(self).__dict__:
            raise AttributeError(name)
        return stand_in(name)()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None: ...


def stand_in(name: str) -> Any:
    return _Kind(name, (_Thing,), {"stands_in": True})


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for folder in self.__path__:
            if Path(folder, f"{name}.py").is_file() or Path(folder, name).is_dir():
                return importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, stand_in(name))
        return self.__dict__[name]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The tree's packages without what their `__init__` does (but for adapters), and stand-ins for other packages."""

    def __init__(self, root: Path | None) -> None:
        self.root = root

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if (name.split(".")[0] == PACKAGE) != (self.root is not None):
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        if self.root is not None:
            folder = self.root.joinpath(*name.split("."))
            if not folder.is_dir() or folder.name == "adapters":
                return None
            spec.submodule_search_locations = [str(folder)]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def install(root: Path) -> None:
    """Make the tree at `root` importable."""
    sys.meta_path.insert(0, _Finder(root))
    sys.meta_path.append(_Finder(None))
    sys.path.insert(0, str(root))


if __name__ == "__main__":
    install(Path(sys.argv[1]))
    exec(compile(sys.stdin.read(), "<script>", "exec"), {"package": importlib.import_module, "__name__": "script"})
