"""Git objects and settings that are meant to harm: nothing is written outside, run, fetched, or read elsewhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from omni_migrate import limits
from omni_migrate.errors import InputError
from omni_migrate.repository import open_repository
from omni_migrate.sources import resolve


def _object(root: Path, kind: str, data: bytes) -> str:
    """An object of any content, as no command of git would make it; its name."""
    whole = f"{kind} {len(data)}".encode() + b"\0" + data
    name = hashlib.sha1(whole).hexdigest()
    file = root / ".git/objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(zlib.compress(whole))
    return name


def _tree(root: Path, *entries: tuple[str, bytes, str]) -> str:
    return _object(
        root, "tree", b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha) for mode, name, sha in entries)
    )


def _commit(root: Path, git, tree: str) -> str:
    return str(git(root, "commit-tree", tree, "-m", "made"))


def _everything(folder: Path) -> set[str]:
    return {str(file) for file in folder.rglob("*") if "objects" not in file.parts and "cache" not in file.parts}


@pytest.mark.parametrize(
    "path",
    [
        [b"../../x.py"], [b"{absolute}/x.py"], [b"..", b"x.py"], [b"..", b"..", b"..", b"x.py"],
        [b"vllm_omni", b"..", b"x.py"], [b"..\\x.py"], [b"C:\\x.py"], [b"C:x.py"], [b".. ", b"x.py"],
        [b"vllm_omni/../../x.py"], [b"//host/x.py"],
    ],
)  # fmt: skip
def test_a_tree_whose_entries_leave_it_is_one_line(checkout, git, tmp_path, refused, path):
    root = checkout()
    path = [part.replace(b"{absolute}", os.fsencode(tmp_path)) for part in path]
    entry = ("100644", path[-1], _object(root, "blob", b"evil"))
    for folder in reversed(path[:-1]):
        entry = ("40000", folder, _tree(root, entry))
    package = git(root, "rev-parse", "HEAD:vllm_omni")
    commit = _commit(root, git, _tree(root, entry, ("40000", b"vllm_omni", package)))
    before = _everything(tmp_path)
    assert "leads out of its folder" in refused(f".@{commit}", root)
    assert _everything(tmp_path) == before
    assert not list((tmp_path / "cache").rglob("x.py"))


def test_a_git_folder_in_a_tree_is_not_unpacked(checkout, git):
    root = checkout()
    hook = _tree(root, ("100755", b"post-checkout.py", _object(root, "blob", b"evil")))
    package = git(root, "rev-parse", "HEAD:vllm_omni")
    for name in (b".git", b".GIT", b"git~1", b".git .", ".g\u200cit".encode()):
        commit = _commit(root, git, _tree(root, ("40000", name, hook), ("40000", b"vllm_omni", package)))
        source = resolve(f".@{commit}", cwd=root)
        assert [child.name for child in source.root.iterdir()] == ["vllm_omni"]


def test_a_tree_within_itself_without_end_is_one_line(checkout, git, refused):
    """Ten folders in each of ten folders, twelve levels: 10 ** 12 files in thirteen objects."""
    root = checkout()
    mode, name = "100644", _object(root, "blob", b"")
    for _ in range(12):
        name, mode = _tree(root, *((mode, b"%d.py" % number, name) for number in range(10))), "40000"
    assert f"has more than {limits.MEMBERS:,} members" in refused(f".@{_commit(root, git, name)}", root)


def test_a_file_of_a_commit_that_is_too_large_is_one_line(checkout, git, refused, monkeypatch):
    root = checkout()
    (root / "vllm_omni/large.py").write_bytes(b"#" * 2000)
    (root / "large.bin").write_bytes(b"#" * 2000)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "large")
    monkeypatch.setattr(limits, "FILE_BYTES", 1000)
    assert "its member 'vllm_omni/large.py' is larger than" in refused(".@HEAD", root)
    (root / "vllm_omni/large.py").unlink()
    git(root, "commit", "--quiet", "--all", "-m", "gone")
    assert resolve(".@HEAD", cwd=root).kind == "git-ref"


def test_a_blob_that_is_gone_or_a_lie_is_one_line(checkout, git, refused):
    root = checkout()
    package = git(root, "rev-parse", "HEAD:vllm_omni")
    for name in ("0" * 39 + "1", package):
        bad = _tree(root, ("100644", b"a.py", name))
        commit = _commit(root, git, _tree(root, ("40000", b"vllm_omni", bad)))
        assert "git has no 'vllm_omni/a.py' of it" in refused(f".@{commit}", root)


def test_one_checkout_cannot_give_another_its_files(checkout, git):
    """git takes the names of objects on trust: a checkout may hold other content under the same name."""
    honest, evil = checkout("honest"), checkout("evil")
    blob = git(evil, "rev-parse", "HEAD:vllm_omni/worker/runner.py")
    file = evil / ".git/objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 4\0evil"))
    assert git(honest, "rev-parse", "HEAD^{tree}") == git(evil, "rev-parse", "HEAD^{tree}")
    assert (resolve(".@HEAD", cwd=evil).root / "vllm_omni/worker/runner.py").read_text() == "evil"
    assert "OmniGPUModelRunner" in (resolve(".@HEAD", cwd=honest).root / "vllm_omni/worker/runner.py").read_text()


def test_names_that_no_terminal_likes(checkout, git, refused):
    root = checkout()
    (root / os.fsdecode(b"vllm_omni/\xff\n\x1b[31m\xc3\xa9.py")).write_text("x = 1\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "names")
    source = resolve(".@HEAD", cwd=root)
    assert b"\xff\n\x1b[31m\xc3\xa9.py" in [os.fsencode(file.name) for file in (source.root / "vllm_omni").iterdir()]


def test_a_name_that_is_too_long_names_the_file(checkout, git, refused):
    root = checkout()
    package = _tree(root, ("100644", b"a" * 300 + b".py", _object(root, "blob", b"")))
    line = refused(f".@{_commit(root, git, _tree(root, ('40000', b'vllm_omni', package)))}", root)
    assert "its member 'vllm_omni/aaaa" in line and "is too long" in line


def test_a_repository_with_sha256_names(tree, git):
    root = tree()
    try:
        git(root, "init", "--quiet", "--object-format=sha256")
    except subprocess.CalledProcessError:
        pytest.skip("this git knows no sha256")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "first")
    git(root, "tag", "v0.16.0")
    source = resolve(".@v0.16.0", cwd=root)
    assert source.version == "0.16.0" and (source.root / "vllm_omni/worker/runner.py").is_file()


ELSEWHERE = {
    "GIT_DIR": ".git", "GIT_WORK_TREE": ".", "GIT_INDEX_FILE": ".git/index", "GIT_OBJECT_DIRECTORY": ".git/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": ".git/objects", "GIT_COMMON_DIR": ".git", "GIT_NAMESPACE": "x",
    "GIT_CEILING_DIRECTORIES": "..", "GIT_SHALLOW_FILE": ".git/HEAD", "GIT_GRAFT_FILE": ".git/HEAD",
    "GIT_REPLACE_REF_BASE": "refs/heads/", "GIT_PREFIX": "x/", "GIT_TRACE": "1", "GIT_EXTERNAL_DIFF": "x",
    "GIT_SSH_COMMAND": "x", "GIT_DEFAULT_HASH": "sha256", "GIT_LITERAL_PATHSPECS": "0",
}  # fmt: skip


@pytest.mark.parametrize("variable", [*ELSEWHERE, "all"])
def test_the_environment_does_not_lead_to_another_repository(checkout, git, monkeypatch, variable):
    other = checkout("other", {"vllm_omni/other.py": ""})
    git(other, "tag", "v9.9.9")
    root = checkout()
    git(root, "tag", "v0.16.0")
    for name in ELSEWHERE if variable == "all" else [variable]:
        path = not ELSEWHERE[name][0].isalnum()
        monkeypatch.setenv(name, str((other / ELSEWHERE[name]).resolve()) if path else ELSEWHERE[name])
    assert resolve(None, cwd=root / "vllm_omni").version == "0.16.0"
    assert resolve(".@v0.16.0", cwd=root).version == "0.16.0"
    with pytest.raises(InputError, match="no such ref"):
        resolve(".@v9.9.9", cwd=root)
    with open_repository(root) as repository:
        assert (repository.top, repository.git_folder) == (root, root / ".git")
        name = repository.run("hash-object", "-w", "--stdin", stdin="only here").strip()
        assert repository.run("status", "--porcelain") == ""
    assert (root / ".git/objects" / name[:2] / name[2:]).is_file()


def test_the_users_own_settings_stay(checkout, git, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "omni.test")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "kept")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "somebody@example.invalid")
    with open_repository(checkout()) as repository:
        assert repository.run("config", "omni.test") == "kept\n"
        assert repository.run("var", "GIT_AUTHOR_IDENT").startswith("Somebody <somebody@example.invalid>")


def test_nothing_of_a_checkout_is_run_to_read_it(checkout, git, tmp_path):
    root = checkout()
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran $0 >> {tmp_path / 'ran'}\n")
    program.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
        (root / ".git/hooks").mkdir(exist_ok=True)
        (root / ".git/hooks" / hook).write_bytes(program.read_bytes())
        (root / ".git/hooks" / hook).chmod(0o755)
    keys = (
        "core.fsmonitor core.pager pager.describe core.editor core.askPass core.sshCommand core.gitProxy "
        "credential.helper diff.external gpg.program filter.x.clean filter.x.smudge filter.x.process diff.x.textconv "
        "core.alternateRefsCommand uploadpack.packObjectsHook"
    )
    for key in keys.split():
        git(root, "config", key, str(program))
    for alias in ("rev-parse", "ls-tree", "cat-file", "describe"):
        git(root, "config", f"alias.{alias}", f"!{program}")
    git(root, "config", "core.hooksPath", str(root / ".git/hooks"))
    (root / ".gitattributes").write_text("*.py filter=x diff=x\n")
    (tmp_path / "ran").unlink(missing_ok=True)
    assert resolve(".@HEAD", cwd=root).kind == "git-ref"
    assert resolve(None, cwd=root).checkout == root
    assert not (tmp_path / "ran").exists()


def test_a_partial_clone_fetches_nothing_without_a_word(checkout, git, tmp_path, refused):
    origin = checkout("origin")
    git(origin, "config", "uploadpack.allowFilter", "true")
    options = ("--quiet", "--no-checkout", "--filter=blob:none")
    git(tmp_path, "clone", *options, f"file://{origin}", "partial")
    packs = sorted((tmp_path / "partial/.git/objects").rglob("*"))
    line = refused("partial@HEAD", tmp_path)
    assert "this partial clone lacks files of the commit, and nothing is fetched without your word" in line
    assert sorted((tmp_path / "partial/.git/objects").rglob("*")) == packs
    git(tmp_path / "partial", "checkout", "--quiet")
    assert resolve("partial@HEAD", cwd=tmp_path).kind == "git-ref"


def test_a_replaced_object_is_read_as_its_name_says(checkout, git):
    root = checkout(files={"vllm_omni/a.py": "first\n"})
    git(root, "replace", git(root, "rev-parse", "HEAD:vllm_omni/a.py"), _object(root, "blob", b"replaced"))
    assert (resolve(".@HEAD", cwd=root).root / "vllm_omni/a.py").read_text() == "first\n"


def test_a_shallow_clone_and_its_submodules(checkout, git, tmp_path):
    origin, inner = checkout("origin"), checkout("inner")
    git(origin, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "vllm_omni/inner")
    git(origin, "commit", "--quiet", "-m", "submodule")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "shallow")
    source = resolve("shallow@HEAD", cwd=tmp_path)
    assert source.version is None
    assert not (source.root / "vllm_omni/inner").exists()
    assert resolve("origin/vllm_omni/inner", cwd=tmp_path).checkout == origin / "vllm_omni/inner"


def test_a_work_tree_that_git_says_is_elsewhere_is_one_line(checkout, git, tmp_path, refused):
    root = checkout()
    (tmp_path / "victim").mkdir()
    git(root, "config", "core.worktree", str(tmp_path / "victim"))
    with pytest.raises(InputError, match="is no work tree of the repository"), open_repository(root):
        pass
    assert "is no work tree of the repository" in refused(".@HEAD", root)


@pytest.mark.parametrize("content", ["", "gitdir: \n", "gitdir: /nowhere\n", "gitdir: .\n", "x" * 100_000])
def test_a_git_file_of_nonsense_is_one_line(tree, refused, content):
    root = tree()
    (root / ".git").write_text(content)
    assert "git" in refused(".@HEAD", root)
    assert resolve(None, cwd=root).version is None


def test_a_bare_repository_has_refs_only(checkout, git, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", str(checkout()), "bare")
    assert resolve("bare@HEAD", cwd=tmp_path).kind == "git-ref"
    with pytest.raises(InputError, match="is a bare repository"), open_repository(tmp_path / "bare"):
        pass
