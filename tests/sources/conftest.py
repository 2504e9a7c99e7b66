"""Wheels and source archives of our own, and a pip that sees nothing else."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FILES = {"vllm_omni/__init__.py": "", "vllm_omni/worker/runner.py": "class Runner:\n    pass\n"}

# A build that runs leaves a trace, in the folder of the environment variable.
BUILD_TRACE = "TEST_BUILD_TRACE"
SETUP = f"import os, pathlib\npathlib.Path(os.environ[{BUILD_TRACE!r}], 'built').touch()\nraise SystemExit(1)\n"


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """Writes a wheel; `extra` members (path -> text) go in as they are named."""

    def write(
        version: str = "1.0",
        tag: str = "py3-none-any",
        *,
        name: str = "vllm_omni",
        folder: str = "wheels",
        files: dict[str, str] | None = None,
        requires_python: str = ">=3.8",
    ) -> Path:
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {requires_python}\n"
        members = {
            **(FILES if files is None else files),
            f"{info}/METADATA": metadata,
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        }
        digests = {path: hashlib.sha256(text.encode()).digest() for path, text in members.items()}
        record = [
            f"{path},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{len(members[path].encode())}\n"
            for path, digest in digests.items()
        ]
        file = tmp_path / folder / f"{name}-{version}-{tag}.whl"
        file.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in (members | {f"{info}/RECORD": "".join(record)}).items():
                archive.writestr(path, text)
        return file

    return write


@pytest.fixture
def sdist(tmp_path: Path) -> Callable[..., Path]:
    """Writes a source archive whose build would leave a trace and fail; `links` are symbolic links (path -> target)."""

    def write(
        version: str = "1.0",
        *,
        folder: str = "wheels",
        suffix: str = ".tar.gz",
        files: dict[str, str] | None = None,
        links: dict[str, str] | None = None,
        metadata: bool = True,
    ) -> Path:
        top = f"vllm_omni-{version}"
        members = {**(FILES if files is None else files), "setup.py": SETUP, "data.bin": "x" * 1000}
        if metadata:
            members["PKG-INFO"] = f"Metadata-Version: 2.1\nName: vllm-omni\nVersion: {version}\n"
        file = tmp_path / folder / f"{top}{suffix}"
        file.parent.mkdir(exist_ok=True)
        mode = "w:" + {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".tar": ""}[file.suffix]
        with tarfile.open(file, mode) as archive:
            for path, text in members.items():
                member = tarfile.TarInfo(f"{top}/{path}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
            for path, target in (links or {}).items():
                member = tarfile.TarInfo(f"{top}/{path}")
                member.type, member.linkname = tarfile.SYMTYPE, target
                archive.addfile(member)
        return file

    return write


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks: no index, and nothing of this machine's configuration."""
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    folder = tmp_path / "wheels"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv(BUILD_TRACE, str(tmp_path))
    return folder


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system; skips where that is not allowed."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("mounting is not allowed here")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.fixture
def refused() -> Callable[..., str]:
    """The one line with which a spec is refused."""
    from omni_migrate.errors import InputError
    from omni_migrate.sources import resolve

    def run(spec: str | None, cwd: Path, package: str = "vllm_omni") -> str:
        with pytest.raises(InputError) as error:
            resolve(spec, cwd=cwd, package=package)
        line = str(error.value)
        assert "\n" not in line
        assert spec is None or line.startswith(spec) or line.startswith("the cache")
        return line

    return run
