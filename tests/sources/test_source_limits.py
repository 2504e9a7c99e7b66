"""Archives and folders that would fill the memory or the disk, or hang: each is one line, soon."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import resource
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omni_migrate import limits
from omni_migrate.limits import files_below, read_regular
from omni_migrate.sources import resolve

MIB = 1 << 20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets limits, so that a test need not be as large as they are."""

    def set_limits(**values: int) -> None:
        for name, value in values.items():
            assert hasattr(limits, name)
            monkeypatch.setattr(limits, name, value)

    return set_limits


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """A test that reads what it should not fails, and takes no memory of others."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096 if sys.platform == "linux" else 1 << 32
    resource.setrlimit(resource.RLIMIT_AS, (used + 700 * MIB, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def _zip(file: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> str:
    with zipfile.ZipFile(file, "w", method) as archive:
        for path, data in members.items():
            archive.writestr(path, data)
    return file.name


def _tar_header(name: str, size: int, **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_small_wheel_with_much_source_is_one_line(tmp_path, refused, method):
    """The case of the issue: 0.9 MB that unpack to 900 MB, here to 120 MB as one file, and as many."""
    many = {f"vllm_omni/{number}.py": b"#" * 15 * MIB for number in range(8)}
    assert "unpacks to more than 200 times its size" in refused(_zip(tmp_path / "many.whl", many, method), tmp_path)
    one = {"vllm_omni/one.py": b"#" * 120 * MIB}
    line = refused(_zip(tmp_path / "one.whl", one, method), tmp_path)
    assert "its member 'vllm_omni/one.py' is larger than 16 MiB, the limit; nothing is unpacked." in line
    assert "unpack it yourself and give the directory" in line
    assert not list((tmp_path / "cache").rglob("*.py"))


def test_what_a_header_says_of_a_size_is_not_believed(tmp_path, refused):
    name = _zip(tmp_path / "liar.whl", {"vllm_omni/a.py": b"#" * 20 * MIB})
    data = bytearray((tmp_path / name).read_bytes())
    with zipfile.ZipFile(tmp_path / name) as archive:
        start = archive.start_dir
        offset = archive.infolist()[0].header_offset
    for at in (offset + 22, start + 24):
        data[at : at + 4] = (100).to_bytes(4, "little")
    (tmp_path / name).write_bytes(data)
    assert "damaged" in refused(name, tmp_path) or "larger than" in refused(name, tmp_path)


def test_members_that_share_their_bytes_are_damage(tmp_path, refused):
    """A zip whose directory names one file a hundred times would unpack to a hundred times its size."""
    name = _zip(tmp_path / "shared.whl", {"vllm_omni/a.py": os.urandom(MIB)})
    with zipfile.ZipFile(tmp_path / name, "a") as archive:
        info = archive.infolist()[0]
        for number in range(100):
            copy = zipfile.ZipInfo(f"vllm_omni/{number:04}.py")
            for field in ("CRC", "compress_size", "file_size", "header_offset", "compress_type"):
                setattr(copy, field, getattr(info, field))
            archive.filelist.append(copy)
        archive._didModify = True
    assert "the archive is damaged" in refused(name, tmp_path)


def test_all_the_source_of_an_archive_counts(tmp_path, refused, small):
    name = _zip(tmp_path / "large.whl", {f"vllm_omni/{number}.py": os.urandom(MIB) for number in range(4)})
    small(TREE_BYTES=3 * MIB)
    assert "has more than 3 MiB of source, the limit" in refused(name, tmp_path)
    small(TREE_BYTES=4 * MIB)
    assert resolve(name, cwd=tmp_path).kind == "wheel"


@pytest.mark.parametrize("suffix", [".whl", ".tar.gz"])
def test_too_many_members_are_one_line(tmp_path, refused, suffix):
    """The case of the issue: 200,000 members, whether they are kept or not."""
    file = tmp_path / f"many{suffix}"
    if suffix == ".whl":
        with zipfile.ZipFile(file, "w") as archive:
            for number in range(200_000):
                archive.writestr(f"d/{number}.txt", b"")
    else:
        with gzip.open(file, "wb", 1) as stream:
            for number in range(200_000):
                stream.write(_tar_header(f"d/{number}.txt", 0))
            stream.write(bytes(1024))
    assert "has more than 100,000 members, the limit" in refused(file.name, tmp_path)


def test_a_checkout_s_worth_of_members_is_fine(tmp_path):
    file = tmp_path / "large.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(50_000):
            archive.writestr(f"vllm_omni/d/{number}.txt", b"")
        archive.writestr("vllm_omni/a.py", b"")
    assert resolve(file.name, cwd=tmp_path).kind == "archive"


@pytest.mark.parametrize("depth", [limits.DEPTH + 1, 1000, 5000])
@pytest.mark.parametrize("suffix", [".whl", ".tar"])
def test_a_member_too_deep_is_one_line(tmp_path, refused, depth, suffix):
    path = "vllm_omni/" + "d/" * depth + "a.py"
    if suffix == ".whl":
        _zip(tmp_path / "deep.whl", {path: b""})
    else:
        with tarfile.open(tmp_path / "deep.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo(path))
    line = refused(f"deep{suffix}", tmp_path)
    assert "its member 'vllm_omni/d/d/" in line and f"lies more than {limits.DEPTH} folders deep" in line
    assert len(line) < 400


def test_a_member_whose_name_is_too_long_is_named(tmp_path, refused):
    line = refused(_zip(tmp_path / "long.whl", {"vllm_omni/" + "a" * 300 + ".py": b""}), tmp_path)
    assert "the path of its member 'vllm_omni/aaaa" in line and "is too long for this disk" in line


@pytest.mark.parametrize("opened", [gzip.open, bz2.open, lzma.open])
def test_a_source_archive_that_unpacks_without_end_is_one_line(tmp_path, refused, opened):
    """What is not kept is unpacked too: a tar archive cannot skip."""
    suffix = {gzip.open: ".tar.gz", bz2.open: ".tar.bz2", lzma.open: ".tar.xz"}[opened]
    with opened(tmp_path / f"bomb{suffix}", "wb") as stream:
        stream.write(_tar_header("data.bin", 200 * MIB))
        for _ in range(200):
            stream.write(bytes(MIB))
        stream.write(bytes(1024))
    assert "unpacks to more than 200 times its size, the limit" in refused(f"bomb{suffix}", tmp_path)


def test_a_tail_of_zeros_counts(tmp_path, refused):
    with gzip.open(tmp_path / "tail.tar.gz", "wb") as stream:
        stream.write(_tar_header("vllm_omni/a.py", 0))
        for _ in range(100):
            stream.write(bytes(MIB))
    assert "unpacks to more than 200 times its size, the limit" in refused("tail.tar.gz", tmp_path)


HUGE = 1 << 62
TARS = {
    "a size beyond the end": _tar_header("vllm_omni/a.py", HUGE),
    "a size beyond the end of what is not kept": _tar_header("data.bin", HUGE),
    "a long name of four exbibytes": _tar_header("././@LongLink", HUGE, type=tarfile.GNUTYPE_LONGNAME),
    "a pax header of four exbibytes": _tar_header("pax", HUGE, type=tarfile.XHDTYPE),
    "a global pax header of one gibibyte": _tar_header("pax", 1 << 30, type=tarfile.XGLTYPE),
    "pax headers in a row": _tar_header("pax", 0, type=tarfile.XHDTYPE) * 5000,
}


@pytest.mark.parametrize("case", TARS)
def test_a_header_that_asks_for_much_is_one_line(tmp_path, refused, case):
    (tmp_path / "bad.tar").write_bytes(TARS[case] + bytes(20 * MIB))
    assert refused("bad.tar", tmp_path)


def test_a_sparse_member_does_not_fill_the_memory(tmp_path, refused):
    """A hole of one tebibyte takes no bytes of the archive."""
    pax = b""
    for key, value in (("GNU.sparse.map", f"0,0,{1 << 40},0"), ("GNU.sparse.size", str(1 << 40)),
                       ("GNU.sparse.numblocks", "2"), ("GNU.sparse.name", "vllm_omni/a.py")):  # fmt: skip
        record = f" {key}={value}\n"
        pax += f"{len(record) + 2}{record}".encode()
    body = pax + bytes(-len(pax) % 512)
    data = _tar_header("pax", len(pax), type=tarfile.XHDTYPE) + body + _tar_header("vllm_omni/a.py", 0) + bytes(1024)
    (tmp_path / "sparse.tar").write_bytes(data)
    assert "is larger than 16 MiB" in refused("sparse.tar", tmp_path)


def test_links_to_one_large_file_count(tmp_path, refused, small):
    with tarfile.open(tmp_path / "links.tar", "w") as archive:
        member = tarfile.TarInfo("vllm_omni/a.py")
        member.size = MIB
        archive.addfile(member, io.BytesIO(bytes(MIB)))
        for number in range(10):
            link = tarfile.TarInfo(f"vllm_omni/{number}.py")
            link.type, link.linkname = tarfile.SYMTYPE, "a.py"
            archive.addfile(link)
    small(TREE_BYTES=8 * MIB)
    assert "has more than 8 MiB of source" in refused("links.tar", tmp_path)


def test_a_link_with_an_endless_target_is_one_line(tmp_path, refused):
    with zipfile.ZipFile(tmp_path / "link.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        link = zipfile.ZipInfo("vllm_omni/a.py")
        link.external_attr = 0o120777 << 16
        link.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(link, b"a" * 100 * MIB)
    assert "its member 'vllm_omni/a.py' is larger than" in refused("link.whl", tmp_path)


def test_an_archive_that_is_too_large_is_not_even_read(tmp_path, refused):
    with (tmp_path / "huge.whl").open("wb") as stream:
        stream.truncate(5 << 30)
    assert "it is larger than 4,096 MiB, the limit; unpack it yourself" in refused("huge.whl", tmp_path)


@pytest.mark.parametrize("again", ["vllm_omni/a.py", "./vllm_omni/a.py", "vllm_omni//a.py"])
def test_a_member_that_is_there_twice_is_one_line(tmp_path, refused, again):
    """Which one counts is a matter of the reader: what was looked at need not be what is read."""
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("vllm_omni/a.py"))
        archive.addfile(tarfile.TarInfo(again))
    assert "is there twice" in refused("twice.tar", tmp_path)


def test_a_stray_git_folder_in_an_archive_is_left_out(tmp_path):
    members = {"vllm_omni-1/vllm_omni/a.py": b"", "vllm_omni-1/.git/hooks/x.py": b"", "vllm_omni-1/.GIT/y.py": b""}
    source = resolve(_zip(tmp_path / "git.zip", members), cwd=tmp_path)
    assert [child.name for child in source.root.iterdir()] == ["vllm_omni"] and source.checkout is None


def test_names_that_no_terminal_likes(tmp_path, refused):
    names = ["vllm_omni/\x1b[31m\n.py", "vllm_omni/é質.py", "vllm_omni/a\u202eb.py"]
    source = resolve(_zip(tmp_path / "odd.whl", dict.fromkeys(names, b"")), cwd=tmp_path)
    assert {f"vllm_omni/{file.name}" for file in (source.root / "vllm_omni").iterdir()} == set(names)
    line = refused(_zip(tmp_path / "bad.whl", {"vllm_omni/\x1b[31m" + "a" * 300 + ".py": b""}), tmp_path)
    assert "\x1b" not in line


def test_an_archive_in_a_locale_without_letters(tmp_path):
    _zip(tmp_path / "é.whl", {"vllm_omni/é質.py": b""})
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("vllm_omni/é質.py"))
    script = (
        "import os, sys; from pathlib import Path; from omni_migrate.sources import resolve\n"
        "for name in sys.argv[1:]:\n"
        "    root = resolve(name, cwd=Path.cwd()).root\n"
        "    print(ascii(os.listdir(os.fsencode(root / 'vllm_omni'))[0].decode()))\n"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", script, "é.whl", "b.tar"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (ascii("é質.py") + "\n" + ascii("é質.py") + "\n", "")


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _socket(file: Path) -> None:
    here = Path.cwd()
    os.chdir(file.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(file.name)
    finally:
        os.chdir(here)


def _large(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(500 * MIB)


def _folder(file: Path) -> None:
    file.mkdir()


def _loop(file: Path) -> None:
    file.symlink_to(file.name)


def _terminal(file: Path) -> None:
    file.symlink_to("/dev/tty")


ODD = [_pipe, _device, _socket, _large, _folder, _loop, _terminal]


@pytest.mark.parametrize("make", ODD)
def test_a_file_that_is_none_is_an_error_at_once(tmp_path, make):
    make(tmp_path / "x.py")
    with pytest.raises(OSError) as error:
        read_regular(tmp_path / "x.py")
    assert error.value.strerror


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("name", ["x.py", "_version.py", "../PKG-INFO", "../vllm_omni-1.dist-info/METADATA"])
def test_a_file_that_is_none_does_not_hang_a_folder(tree, make, name):
    root = tree(files={"vllm_omni/a.py": "", "vllm_omni-1.dist-info/RECORD": ""})
    make(root / "vllm_omni" / name)
    source = resolve(str(root), cwd=root)
    assert (source.root, source.version) == (root, None)


@pytest.mark.parametrize("make", [_large, _pipe, _device])
def test_an_environment_with_such_a_file_does_not_hang(tree, make, tmp_path):
    root = tree("site-packages", {"vllm_omni/a.py": ""})
    make(root / "vllm_omni/x.py")
    if make is _large:
        with pytest.raises(Exception, match=r"x.py' cannot be read: it is larger than 16 MiB"):
            resolve(str(root), cwd=root)
    else:
        assert [file.name for file in resolve(str(root), cwd=root).root.rglob("*.py")] == ["a.py"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": 1}', '{"url": "file://["}', "null", '"x"'])
def test_a_direct_url_of_nonsense_is_one_line(tmp_path, monkeypatch, refused, text):
    info = tmp_path / "environment/lib/python3/site-packages/vllm_omni-0.4.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-omni\nVersion: 0.4\n")
    (info / "direct_url.json").write_text(text)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "environment"))
    assert refused("installed:vllm-omni", tmp_path)


@pytest.mark.parametrize("name", ["../../etc", "/etc", "..", ".", "vllm_omni\0", "a" * 5000, "\x1b[31m", "*"])
def test_a_package_name_of_nonsense_is_one_line(tmp_path, refused, name):
    assert "no package" in refused(f"installed:{name}", tmp_path)


def test_files_below_a_deep_folder_and_one_that_is_closed(tmp_path, monkeypatch):
    """Deeper than Python recurses, and deeper than a path can say: what cannot be listed is told."""
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2100):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    (tmp_path / "a.py").touch()
    told: list[str] = []
    assert list(files_below(str(tmp_path), unlisted=lambda folder, error: told.append(folder))) == [
        str(tmp_path / "a.py")
    ]
    assert len(told) == 1 and told[0].endswith("d/d/d")
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
