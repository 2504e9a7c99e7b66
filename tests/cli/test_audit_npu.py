"""`audit-npu` from the command line: what is refused is one line and exit code 2, and leaves everything as it was."""

from __future__ import annotations

import pytest

RUNNER = """
from vllm_ascend.worker.model_runner_v1 import NPUModelRunner


class OmniNPUModelRunner(NPUModelRunner):
    def load_model(self):
        super().load_model()
        # ---- Omni-new ----
        self.talker = make_talker()
        # ---- Omni-new ----
"""
PATH = "vllm_omni/platforms/npu/worker/npu_model_runner.py"
TREE = {"vllm_omni/__init__.py": "", PATH: RUNNER}


def refused(done, *said):
    """Whether a run ended with one line that says all of that."""
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert [word for word in said if word not in done.stderr] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["no/such/tree"], ["no/such/tree", "no such file or directory"]),
        (["{other}"], ["no NPU runner found"]),
        (["{tree}", "--ascend", "no/such/ascend"], ["no/such/ascend", "no such file or directory"]),
        (["{tree}", "--ascend", "{tree}"], ["not vllm_ascend", "looked for"]),
        (["{tree}", "--mark", "--dry-run"], ["--mark", "--ascend SPEC"]),
        (["{tree}", "--write"], ["not a git checkout", "--dry-run"]),
        (["{tree}", "--output", "out"], ["--output", "nothing to write", "--write"]),
        (
            ["{tree}", "--write", "--catalogue", "{other}/../x.md", "--dry-run"],
            ["--catalogue", "below the tree's root"],
        ),
        (["{tree}", "--catalogue", "vllm_omni"], ["--catalogue vllm_omni", "a Markdown file"]),
        (["{tree}", "--catalogue", "vllm_omni/__init__.py"], ["--catalogue vllm_omni/__init__.py", "a Markdown file"]),
        (["{tree}", "--catalogue", "vllm_omni/__init__.py/x.md"], ["vllm_omni/__init__.py is a file"]),
        (["{tree}", "--branch", "b"], ["--branch", "nothing to commit", "--write"]),
        (["{tree}", "--check", "--branch", "b"], ["--check and --branch exclude each other"]),
    ],
)
def test_what_is_refused_is_one_line(cli, tree, tmp_path, line, said):
    folders = {"tree": tree("omni", TREE), "other": tree("other")}
    before = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    refused(cli("audit-npu", *(part.format(**folders) for part in line)), *said)
    assert sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts) == before


def test_without_a_wish_to_write_nothing_is_written(cli, checkout, git):
    root = checkout("omni", TREE)
    done = cli("audit-npu", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "marker lines 2, pairs 1, lone 0, defects 0" in done.stdout
    assert git(root, "status", "--porcelain") == ""


def test_a_checkout_is_written_in_place_and_a_dirty_one_refused(cli, checkout, git):
    root = checkout("omni", TREE)
    assert cli("audit-npu", "--write", cwd=root).returncode == 0
    assert git(root, "status", "--porcelain") == "?? docs/"
    refused(cli("audit-npu", "--write", cwd=root), "uncommitted")


def test_each_kind_of_change_is_a_commit(cli, checkout, git):
    lone = RUNNER.replace("        # ---- Omni-new ----\n        self.talker", "        self.talker")
    root = checkout("omni", {**TREE, PATH: lone})
    git(root, "config", "user.name", "Test")
    git(root, "config", "user.email", "test@example.invalid")
    done = cli("audit-npu", "--fix-markers", "--write", "--branch", "audit", cwd=root)
    assert done.returncode == 0, done.stderr
    subjects = git(root, "log", "--format=%s", "audit").splitlines()[:2]
    assert "catalogue" in subjects[0] and "marker" in subjects[1].lower()


def test_a_runner_that_does_not_parse_is_named_and_nothing_is_written(cli, checkout, git):
    broken = "from vllm_ascend.worker.model_runner_v1 import NPUModelRunner\nclass Broken(NPUModelRunner:\n"
    root = checkout("omni", {**TREE, "vllm_omni/platforms/npu/worker/npu_ar_model_runner.py": broken})
    done = cli("audit-npu", cwd=root)
    assert done.returncode == 0 and "npu_ar_model_runner.py: error unreadable-file" in done.stdout
    refused(cli("audit-npu", "--write", cwd=root), "npu_ar_model_runner.py", "nothing is written")
    assert git(root, "status", "--porcelain") == ""


def test_a_catalogue_keeps_its_line_ends_and_what_is_current_is_left_alone(cli, checkout, git):
    root = checkout("omni", TREE)
    page = root / "docs" / "npu-omni-blocks.md"
    assert cli("audit-npu", "--write", cwd=root).returncode == 0
    people = page.read_text().replace("Location:", "Why:\n\n\n- because\n\nLocation:", 1)
    page.write_bytes(people.replace("\n", "\r\n").encode())
    git(root, "add", "-A")
    git(root, "commit", "-qm", "catalogue")
    assert cli("audit-npu", "--write", cwd=root).returncode == 0
    assert git(root, "status", "--porcelain") == ""
    page.write_bytes(page.read_bytes().replace(b"make_talker()", b"make()"))
    assert cli("audit-npu", "--check", "--allow-dirty", cwd=root).returncode == 1
    assert cli("audit-npu", "--write", "--allow-dirty", cwd=root).returncode == 0
    assert page.read_bytes().count(b"\r\n") == page.read_bytes().count(b"\n")
    assert b"- because\r\n" in page.read_bytes()
    assert cli("audit-npu", "--check", "--allow-dirty", cwd=root).returncode == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"## OmniNPUModelRunner \xff\n", "is not UTF-8"),
        (b"## OmniNPUModelRunner\n\n```bash\nmake\n\n### load_model - Load\n", "mine.md:3: nothing closes this fence"),
    ],
)
def test_a_catalogue_that_cannot_be_read_is_left_alone(cli, checkout, git, text, said):
    root = checkout("omni", TREE)
    (root / "mine.md").write_bytes(text)
    refused(cli("audit-npu", "--write", "--allow-dirty", "--catalogue", "mine.md", cwd=root), said)
    assert (root / "mine.md").read_bytes() == text


def test_a_catalogue_is_not_written_through_a_link_out_of_the_tree(cli, checkout, tmp_path):
    root = checkout("omni", TREE)
    (tmp_path / "elsewhere").mkdir()
    (root / "docs").symlink_to(tmp_path / "elsewhere")
    refused(cli("audit-npu", "--write", "--allow-dirty", cwd=root), "docs/npu-omni-blocks.md", "below the tree's root")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_platform_whose_runner_is_elsewhere_is_refused(cli, tree):
    """It would be taken for one with which nothing is shared."""
    moved = tree("moved", {"vllm_ascend/__init__.py": "", "vllm_ascend/runner.py": "class NPUModelRunner: ..."})
    refused(cli("audit-npu", tree("omni", TREE), "--ascend", moved), "has no vllm_ascend.worker.model_runner_v1")
    (moved / "vllm_ascend" / "worker").mkdir()
    (moved / "vllm_ascend" / "worker" / "model_runner_v1.py").write_text("class NPUModelRunner(:")
    refused(cli("audit-npu", tree("omni2", TREE), "--ascend", moved), "model_runner_v1.py cannot be parsed")


def test_where_the_only_runner_does_not_parse_it_is_named(cli, tree):
    refused(cli("audit-npu", tree("omni", {**TREE, PATH: RUNNER + "("})), "no NPU runner found", PATH, "line")


def test_a_folder_may_have_the_name_of_a_version(cli, tree, tmp_path):
    code = "class NPUModelRunner:\n    def load_model(self): ..."
    tree("0.26.0", {"vllm_ascend/__init__.py": "", "vllm_ascend/worker/model_runner_v1.py": code})
    done = cli("audit-npu", tree("omni", TREE), "--ascend", "0.26.0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_output_is_a_whole_tree_also_if_nothing_changes(cli, tree, tmp_path):
    done = cli("audit-npu", tree("omni", TREE), "--fix-markers", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / PATH).read_text() == RUNNER


def test_a_method_of_any_version_given_is_not_omnis(cli, tree):
    """Whichever is named first: it may have been copied from either."""
    runner = RUNNER + "\n    def warm_up(self):\n        self.warm = 1\n"
    old = "class NPUModelRunner:\n    def load_model(self): ...\n"
    versions = {"old": old, "new": old + "    def warm_up(self):\n        self.warm = 1\n"}
    paths = {
        name: str(tree(name, {"vllm_ascend/__init__.py": "", "vllm_ascend/worker/model_runner_v1.py": text}))
        for name, text in versions.items()
    }
    root = tree("omni", {**TREE, PATH: runner})
    for names, said in ((["old"], True), (["old", "new"], False), (["new", "old"], False)):
        done = cli("audit-npu", root, *(word for name in names for word in ("--ascend", paths[name])))
        assert done.returncode == 0, done.stderr
        assert ("addition" in done.stdout) is said, names


@pytest.mark.parametrize("how", [["--dry-run"], ["--allow-dirty"]])
def test_the_report_of_a_run_that_mends_is_of_what_is_there_then(cli, checkout, how):
    lone = RUNNER.replace("        # ---- Omni-new ----\n        self.talker", "        self.talker")
    root = checkout("omni", {**TREE, PATH: lone})
    assert "lone 1, defects 1" in cli("audit-npu", cwd=root).stdout
    done = cli("audit-npu", "--fix-markers", *how, cwd=root)
    assert "pairs 1, lone 0, defects 0" in done.stdout
    assert "marker-lone" not in done.stdout
