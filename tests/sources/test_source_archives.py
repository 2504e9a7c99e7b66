"""Wheels and source archives: what is unpacked, what never is, and what is said of a damaged one."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from omni_migrate.sources import resolve


def _files(root: Path) -> list[str]:
    return sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())


def test_only_the_python_and_configuration_files_of_a_wheel(wheel, tmp_path):
    extra = {"vllm_omni/a.py": "", "vllm_omni/k.so": "x", "vllm_omni/d.json": "{}", "vllm_omni/ruff.toml": ""}
    source = resolve(str(wheel("0.3", files=extra)), cwd=tmp_path)
    assert (source.version, source.kind, source.checkout) == ("0.3", "wheel", None)
    assert _files(source.root) == ["vllm_omni-0.3.dist-info/METADATA", "vllm_omni/a.py", "vllm_omni/ruff.toml"]


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.bz2", ".tar.xz", ".tar"])
def test_a_source_archive_in_its_own_folder(sdist, tmp_path, suffix):
    source = resolve(str(sdist("0.3", suffix=suffix)), cwd=tmp_path)
    assert (source.version, source.kind, source.root.name) == ("0.3", "archive", "vllm_omni-0.3")
    assert "data.bin" not in _files(source.root)


def test_a_zip_archive_with_a_src_layout(tmp_path):
    with zipfile.ZipFile(tmp_path / "source.zip", "w") as archive:
        archive.writestr("project-main/src/vllm_omni/a.py", "x = 1\n")
        archive.writestr("project-main/src/vllm_omni/_version.py", "__version__ = '0.5.dev1'\n")
    source = resolve("source.zip", cwd=tmp_path)
    assert source.version == "0.5.dev1"
    assert (source.root / "vllm_omni/a.py").read_text() == "x = 1\n"


def test_a_link_inside_the_archive_is_its_target(sdist, tmp_path):
    source = resolve(str(sdist(links={"vllm_omni/link.py": "worker/runner.py", "docs.py": "absent.py"})), cwd=tmp_path)
    assert (source.root / "vllm_omni/link.py").read_text() == (source.root / "vllm_omni/worker/runner.py").read_text()
    assert not (source.root / "vllm_omni/link.py").is_symlink()
    assert not (source.root / "docs.py").exists()


OUTSIDE = ["../evil.py", "/evil.py", "a/../../evil.py", "C:/evil.py", "..\\evil.py", "\\\\host\\evil.py"]


def _nothing_outside(tmp_path: Path) -> bool:
    return not list(tmp_path.rglob("evil*")) and not Path("/evil.py").exists()


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_zip_member_outside_the_folder_is_refused(tmp_path, refused, name):
    with zipfile.ZipFile(tmp_path / "bad.whl", "w") as archive:
        archive.writestr("vllm_omni/a.py", "")
        archive.writestr(name, "")
    assert "points outside the archive; not unpacked" in refused("bad.whl", tmp_path)
    assert _nothing_outside(tmp_path)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_tar_member_outside_the_folder_is_refused(tmp_path, refused, name):
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("vllm_omni/a.py"))
        archive.addfile(tarfile.TarInfo(name))
    assert "points outside the archive; not unpacked" in refused("bad.tar.gz", tmp_path)
    assert _nothing_outside(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symbolic", "hard"])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "../.."])
def test_a_link_outside_the_folder_is_refused(tmp_path, refused, kind, target):
    with tarfile.open(tmp_path / "bad.tar", "w:") as archive:
        link = tarfile.TarInfo("vllm_omni/link.py")
        link.type, link.linkname = kind, target
        archive.addfile(link)
        through = tarfile.TarInfo("vllm_omni/link.py/evil.py")
        archive.addfile(through)
    assert "points outside the archive; not unpacked" in refused("bad.tar", tmp_path)
    assert _nothing_outside(tmp_path)


def test_a_link_in_a_zip_outside_the_folder_is_refused(tmp_path, refused):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        link = zipfile.ZipInfo("vllm_omni/link.py")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "points outside the archive; not unpacked" in refused("bad.zip", tmp_path)


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_a_device_is_refused(tmp_path, refused, kind):
    with tarfile.open(tmp_path / "bad.tar", "w:") as archive:
        device = tarfile.TarInfo("vllm_omni/device.py")
        device.type = kind
        archive.addfile(device)
    assert "is a device or pipe" in refused("bad.tar", tmp_path)


def test_a_wheel_cut_anywhere_is_one_line_and_leaves_nothing(wheel, tmp_path, refused):
    whole = wheel().read_bytes()
    for length in range(0, len(whole), len(whole) // 12):
        (tmp_path / "cut.whl").write_bytes(whole[:length])
        assert "the archive is damaged" in refused("cut.whl", tmp_path)
    assert list((tmp_path / "cache").rglob("*.py")) == []


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.bz2", ".tar.xz"])
def test_a_source_archive_cut_anywhere_is_one_line_and_leaves_nothing(sdist, tmp_path, refused, suffix):
    whole = sdist(suffix=suffix).read_bytes()
    for length in range(0, len(whole) - 1, len(whole) // 12):
        (tmp_path / f"cut{suffix}").write_bytes(whole[:length])
        assert "the archive is damaged" in refused(f"cut{suffix}", tmp_path)
    assert list((tmp_path / "cache").rglob("*.py")) == []


def test_a_wheel_with_a_flipped_bit_is_one_line(wheel, tmp_path, refused):
    file = wheel(files={"vllm_omni/a.py": "x = 1\n" * 1000})
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo("vllm_omni/a.py")
        data[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 0xFF
    (tmp_path / "flipped.whl").write_bytes(data)
    assert "the archive is damaged" in refused("flipped.whl", tmp_path)


def test_a_file_where_the_archive_also_has_a_folder_is_one_line(tmp_path, refused):
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        archive.writestr("vllm_omni/a.py", "")
        archive.writestr("vllm_omni/a.py/b.py", "")
    assert refused("odd.zip", tmp_path)


def test_what_is_no_archive(tmp_path, refused):
    (tmp_path / "notes.txt").write_text("")
    assert "not a wheel or source archive; known are .whl, .zip, .tar.gz" in refused("notes.txt", tmp_path)


def test_an_archive_of_something_else(wheel, tmp_path, refused):
    file = wheel(name="other", files={"other/__init__.py": ""})
    assert "not vllm_omni: looked for a folder vllm_omni/" in refused(str(file), tmp_path)
