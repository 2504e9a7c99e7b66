"""The wheel brings the tool, and leaves a published vllm_omni that it is installed next to as it was."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import omni_migrate
from omni_migrate.runners import in_tree_worker

REPOSITORY = Path(__file__).parents[2]


def _pip(*args: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", *args, "--quiet"], check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, REPOSITORY)
    (wheel,) = folder.iterdir()
    return wheel


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The site-packages of a new environment, which finds the tool's dependencies in this one's."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return site


def _python(site: Path) -> Path:
    return site.parents[2] / "bin" / "python"


def _install(site: Path, *wheels: Path) -> None:
    for wheel in wheels:
        _pip("--python", _python(site), "install", "--no-deps", "--no-index", wheel)


def _run(site: Path, *command: str) -> str:
    program = str(site.parents[2] / "bin" / command[0])
    # not here: `python -c` puts the folder it is started in first, and this one has a vllm_omni of its own
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, cwd=site.parents[2])
    assert done.returncode == 0, done.stderr
    return done.stdout


def _content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_the_wheel_holds_the_tool_its_knowledge_and_no_runner(built):
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
    info = f"omni_migrate-{omni_migrate.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"omni_migrate", "codemods", info}
    assert {"omni_migrate/knowledge/rules.toml", "omni_migrate/knowledge/adapters.toml"} <= set(names)
    assert {"omni_migrate/sources/pip_without_build.py", f"{info}/licenses/LICENSE"} <= set(names)


def test_the_wheel_carries_the_in_tree_worker_as_data(environment, built):
    """`port-v2` writes these files; an installed tool has them as the repository has them."""
    _install(environment, built)
    script = (
        "import hashlib, json\n"
        "from omni_migrate.runners import in_tree_worker\n"
        "print(json.dumps({path: hashlib.sha256(data).hexdigest() for path, data in in_tree_worker().items()}))\n"
    )
    installed = json.loads(_run(environment, "python", "-c", script))
    assert installed == {path: hashlib.sha256(data).hexdigest() for path, data in in_tree_worker().items()}
    assert {"hooks.py", "gpu_model_runner_v2.py", "hook_adapters/registry.py"} <= set(installed)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A small vllm_omni as somebody else publishes it."""
    wheel = tmp_path / "vllm_omni-0.1-py3-none-any.whl"
    info = "vllm_omni-0.1.dist-info"
    members = {
        "vllm_omni/__init__.py": "published = True\n",
        "vllm_omni/worker/__init__.py": "",
        "vllm_omni/worker/gpu_model_runner.py": "published = True\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: vllm-omni\nVersion: 0.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*members, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in (members | {f"{info}/RECORD": record}).items():
            archive.writestr(name, text)
    return wheel


def _stays(site: Path, published: Path, built: Path, *, first: str) -> None:
    """Install both, in this order; what was published is what is there and what is imported."""
    with zipfile.ZipFile(published) as archive:
        members = {name for name in archive.namelist() if name.startswith("vllm_omni/") and not name.endswith("/")}
        expected = {name.removeprefix("vllm_omni/"): archive.read(name) for name in members}
    _install(site, *((published, built) if first == "vllm-omni" else (built, published)))
    assert _content(site / "vllm_omni") == expected
    find = "import importlib.util; print(importlib.util.find_spec('vllm_omni').origin)"
    assert _run(site, "python", "-c", find).strip() == str(site / "vllm_omni" / "__init__.py")
    assert _run(site, "omni-migrate", "--version").strip() == f"omni-migrate {omni_migrate.__version__}"
    assert _content(site / "vllm_omni") == expected


@pytest.mark.parametrize("first", ["vllm-omni", "omni-migrate"])
def test_a_published_vllm_omni_stays_as_it_is(environment, published, built, first):
    _stays(environment, published, built, first=first)


def test_uninstalling_the_tool_leaves_the_published_vllm_omni(environment, published, built):
    _install(environment, published, built)
    before = _content(environment / "vllm_omni")
    _pip("--python", _python(environment), "uninstall", "--yes", "omni-migrate")
    assert _content(environment / "vllm_omni") == before
    assert not (environment / "omni_migrate").exists()


@pytest.mark.release
def test_the_real_vllm_omni_stays_as_it_is(environment, built, tmp_path):
    _pip("download", "--no-deps", "--dest", tmp_path, "vllm-omni==0.30.0")
    (published,) = tmp_path.glob("vllm_omni-*.whl")
    _stays(environment, published, built, first="vllm-omni")


def test_the_command_runs_without_torch_and_vllm(environment, built):
    _install(environment, built)
    script = (
        "import sys\n"
        "sys.modules.update(torch=None, vllm=None, vllm_omni=None)\n"
        "sys.argv = ['omni-migrate', 'list', 'adapters']\n"
        "from omni_migrate.cli import main\n"
        "main()\n"
    )
    assert "mrope" in _run(environment, "python", "-c", script)


def test_python_dash_m_is_the_command(environment, built):
    _install(environment, built)
    assert _run(environment, "python", "-m", "omni_migrate", "--version").startswith("omni-migrate ")
