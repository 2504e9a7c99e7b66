"""A script: pip, but a source archive is only fetched. Run as `python pip_without_build.py download ...`.

`pip download` runs the build backend of every source archive for its metadata, which for vllm-ascend installs torch and
then fails. Here the metadata is what the archive's own PKG-INFO says. Everything else (indexes, credentials,
certificates, proxies, the choice of the release) is pip's own, with the user's configuration.
"""

import sys

# This folder must not shadow a module that pip imports.
del sys.path[0]

from email import message_from_bytes  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402


def use_the_metadata_that_is_there(self: Any, *args: Any, **kwargs: Any) -> None:
    """Stands in for pip's SourceDistribution.prepare_distribution_metadata."""
    requirement = self.req
    folder = Path(requirement.unpacked_source_directory)
    try:
        content = (folder / "PKG-INFO").read_bytes()
    except FileNotFoundError:
        parse = import_module("pip._vendor.packaging.utils").parse_sdist_filename
        content = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(*parse(requirement.link.filename)).encode()
    fields = message_from_bytes(content)
    # pip 23 reads the name off the folder; pip removes it with the rest of its temporary folder.
    info = folder / "{}-{}.dist-info".format(fields["Name"].replace("-", "_"), fields["Version"])
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_bytes(content)
    requirement.metadata_directory = str(info)


source_distribution = import_module("pip._internal.distributions.sdist").SourceDistribution
if not hasattr(source_distribution, "prepare_distribution_metadata"):
    sys.exit("ERROR: this pip prepares source archives in a way that omni-migrate does not know")
source_distribution.prepare_distribution_metadata = use_the_metadata_that_is_there
sys.exit(import_module("pip._internal.cli.main").main(sys.argv[1:]))
