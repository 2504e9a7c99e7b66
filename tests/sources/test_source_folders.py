"""Directories, git refs and installed packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve


def test_a_directory_that_holds_the_package(tree):
    root = tree()
    source = resolve(str(root), cwd=Path.cwd())
    assert (source.root, source.kind, source.version, source.checkout) == (root, "directory", None, None)


def test_the_package_folder_itself(tree):
    root = tree()
    assert resolve(str(root / "vllm_omni"), cwd=Path.cwd()).root == root


def test_a_src_layout(tree):
    root = tree(files={"src/vllm_omni/__init__.py": ""})
    assert resolve(str(root), cwd=Path.cwd()).root == root / "src"


def test_a_relative_path_starts_at_the_current_directory(tree):
    root = tree()
    assert resolve(root.name, cwd=root.parent).root == root


def test_a_link_to_a_file_is_read_and_a_link_to_a_folder_is_not_followed(tree, tmp_path):
    """A checkout's own links are its files, wherever they point; only what is no regular file is not read."""
    root = tree()
    other = tree("other", {"a.py": "x = 1\n"})
    (root / "vllm_omni/link.py").symlink_to(other / "a.py")
    (root / "vllm_omni/folder").symlink_to(other)
    workspace = Workspace(resolve(str(root), cwd=Path.cwd()).root)
    assert workspace.read("vllm_omni/link.py") == b"x = 1\n"
    assert "vllm_omni/folder/a.py" not in list(workspace.python_files())


def test_a_folder_may_have_an_at_sign(tree):
    root = tree("tree@v1")
    assert resolve(str(root), cwd=Path.cwd()).kind == "directory"


def test_another_package_can_be_asked_for(tree):
    root = tree(files={"vllm/__init__.py": "", "vllm/_version.py": "__version__ = version = '0.9'\n"})
    source = resolve(str(root), cwd=Path.cwd(), package="vllm")
    assert (source.root, source.version) == (root, "0.9")


def test_the_version_of_an_unpacked_wheel(tree):
    root = tree(
        files={"vllm_omni/a.py": "", "vllm_omni-0.16.0.dist-info/METADATA": "Name: vllm-omni\nVersion: 0.16.0\n"}
    )
    assert resolve(str(root), cwd=Path.cwd()).version == "0.16.0"


def test_nothing_is_the_checkout_around_the_current_directory(checkout):
    root = checkout()
    for cwd in (root, root / "vllm_omni", root / "vllm_omni" / "worker"):
        source = resolve(None, cwd=cwd)
        assert (source.root, source.checkout, source.kind) == (root, root, "directory")


def test_the_search_ends_at_the_top_of_the_checkout(tree, checkout, refused):
    tree("outer")
    inner = checkout("outer/inner", {"other/a.py": ""})
    line = refused(None, inner)
    assert line.startswith("no vllm_omni here: looked for a folder vllm_omni/ with Python files in ")
    assert f"up to {inner}" in line


def test_the_version_of_a_checkout_is_that_of_its_tag(checkout, git):
    root = checkout()
    assert resolve(None, cwd=root).version is None
    git(root, "tag", "v0.16.0")
    assert resolve(None, cwd=root).version == "0.16.0"
    git(root, "commit", "--allow-empty", "--quiet", "-m", "second")
    assert resolve(None, cwd=root).version == "0.16.0+1.g" + git(root, "rev-parse", "--short", "HEAD")


def test_a_linked_work_tree_is_a_checkout(checkout, git, tmp_path):
    git(checkout(), "worktree", "add", "--quiet", str(tmp_path / "linked"))
    assert resolve("linked", cwd=tmp_path).checkout == tmp_path / "linked"


def _state(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a checkout, git's own included, with its time of change and its content."""
    files = (file for file in root.rglob("*") if file.is_file())
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def test_a_ref_is_read_without_touching_the_checkout(checkout, git):
    root = checkout(files={"vllm_omni/a.py": "old\n", "pyproject.toml": "", "README.md": "", "vllm_omni/k.cu": ""})
    git(root, "tag", "v0.16.0")
    (root / "vllm_omni/a.py").write_text("new\n")
    git(root, "commit", "--all", "--quiet", "-m", "second")
    (root / "vllm_omni/a.py").write_text("not committed\n")
    (root / "untracked.py").write_text("")
    before = _state(root)
    for spec, cwd in ((".@v0.16.0", root), (f"{root}@v0.16.0", root.parent), (".@HEAD~1", root / "vllm_omni")):
        source = resolve(spec, cwd=cwd)
        assert (source.root / "vllm_omni/a.py").read_text() == "old\n"
        assert (source.kind, source.version, source.checkout) == ("git-ref", "0.16.0", None)
    found = sorted(file.relative_to(source.root).as_posix() for file in source.root.rglob("*") if file.is_file())
    assert found == ["pyproject.toml", "vllm_omni/a.py"]
    assert _state(root) == before


def test_the_bytes_of_a_ref_are_the_bytes_of_its_files(checkout, git):
    root = checkout()
    data = b"\xef\xbb\xbfx = 1\r\ny = '\xe4'\r\n"
    (root / "vllm_omni/a.py").write_bytes(data)
    git(root, "-c", "core.autocrlf=false", "commit", "-am", "crlf", "--quiet", "--allow-empty")
    git(root, "-c", "core.autocrlf=false", "add", "vllm_omni/a.py")
    git(root, "commit", "--quiet", "-m", "bytes")
    assert (resolve(".@HEAD", cwd=root).root / "vllm_omni/a.py").read_bytes() == data


def test_a_ref_may_hold_an_at_sign(checkout):
    assert resolve(".@HEAD@{0}", cwd=checkout()).kind == "git-ref"


def test_a_src_layout_in_a_ref(checkout):
    source = resolve(".@HEAD", cwd=checkout(files={"src/vllm_omni/a.py": ""}))
    assert source.root.name == "src"


def test_a_link_in_a_ref_is_left_out(checkout, git):
    root = checkout()
    (root / "vllm_omni/link.py").symlink_to("/etc/hostname")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "link")
    assert not (resolve(".@HEAD", cwd=root).root / "vllm_omni/link.py").exists()


def test_a_ref_that_is_none(checkout, tree, refused):
    root = checkout()
    assert "git cannot read v9: no such ref; see `git tag`" in refused(".@v9", root)
    assert "git cannot read --all: no such ref" in refused(".@--all", root)
    assert "no ref after the @" in refused(".@", root)
    assert "is not in a git checkout" in refused(".@v9", tree("plain"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_a_checkout_of_another_user_says_how_to_allow_it(checkout, refused):
    root = checkout()
    for file in (root, root / ".git", *root.rglob("*")):
        os.chown(file, 12345, 12345)
    line = refused(".@HEAD", root)
    assert f"belongs to another user; `git config --global --add safe.directory {root}` allows it" in line


def test_without_git_a_ref_says_so_and_a_directory_does_without(checkout, refused, monkeypatch):
    root = checkout()
    monkeypatch.setenv("PATH", "")
    assert "git is not installed or not on PATH: install it" in refused(".@HEAD", root)
    assert resolve(None, cwd=root).checkout == root


def test_a_ref_without_the_package(checkout, refused):
    assert "not vllm_omni: looked for a folder vllm_omni/" in refused(".@HEAD", checkout(files={"a.py": ""}))


def test_an_environment_is_copied_and_never_written(wheel, tmp_path, monkeypatch):
    environment = tmp_path / "environment"
    site = environment / "lib" / "python3" / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel("0.3")], check=True
    )
    (site / "neighbour.py").write_text("")
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    source = resolve("installed:vllm-omni", cwd=tmp_path)
    assert (source.version, source.kind, source.checkout) == ("0.3", "installed", None)
    assert source.root != site
    assert (source.root / "vllm_omni/worker/runner.py").read_text() == (site / "vllm_omni/worker/runner.py").read_text()
    assert not (source.root / "neighbour.py").exists()
    (site / "vllm_omni/worker/runner.py").write_text("changed = True\n")
    again = resolve(str(site / "vllm_omni"), cwd=tmp_path)
    assert (again.root / "vllm_omni/worker/runner.py").read_text() == "changed = True\n"
    assert (again.version, again.checkout) == ("0.3", None)


def test_an_editable_install_is_found_by_its_folder(tree, tmp_path, monkeypatch):
    root = tree("project of mine")
    site = tmp_path / "environment" / "lib" / "python3" / "site-packages"
    info = site / "vllm_omni-0.4.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-omni\nVersion: 0.4\n")
    (info / "direct_url.json").write_text(json.dumps({"url": root.as_uri(), "dir_info": {"editable": True}}))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "environment"))
    source = resolve("installed:vllm-omni", cwd=tmp_path)
    assert source.version == "0.4"
    assert (source.root / "vllm_omni/worker/runner.py").read_text() == (root / "vllm_omni/worker/runner.py").read_text()


def test_what_is_not_installed(tmp_path, refused):
    assert "no package vllm-omni-absent is installed in" in refused("installed:vllm-omni-absent", tmp_path)
    assert "no package (empty) is installed" in refused("installed:", tmp_path)


def test_what_is_no_such_path(tmp_path, refused):
    for spec in ("nowhere", "./nowhere", "/nowhere/at/all", "nowhere.whl", "nowhere@v1", "two words"):
        line = refused(spec, tmp_path)
        assert f"no such file or directory (looked in {tmp_path}); give a directory, DIR@REF" in line


def test_what_is_not_the_package(tree, refused):
    root = tree(files={"vllm/__init__.py": ""})
    line = refused(str(root), root)
    assert f"not vllm_omni: looked for a folder vllm_omni/ with Python files in {root} and {root / 'src'}" in line


def test_an_empty_package_folder_is_not_the_package(tmp_path, refused):
    (tmp_path / "vllm_omni").mkdir()
    assert "not vllm_omni" in refused(str(tmp_path), tmp_path)


@pytest.mark.parametrize("spec", ["vllm-omni @ https://example.invalid/a.whl", "vllm-omni==1; python_version<'3'"])
def test_a_url_or_a_marker_is_refused(spec, tmp_path, refused):
    assert "a URL or marker is not supported" in refused(spec, tmp_path)


def test_a_malformed_requirement(tmp_path, refused):
    assert "not a requirement" in refused("vllm-omni==abc", tmp_path)
