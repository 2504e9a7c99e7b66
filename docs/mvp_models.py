"""Which models of a release a V2 port of P0 and P1 serves (RFC-005 Q5): python docs/mvp_models.py [vllm-omni==0.30.0]

P0 is the forward, the split of outputs and the runner output; P1 additional information and M-RoPE. A registered model
needs P2 if its class, or a base of it, can answer one of the capabilities of P2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
P2 = ("has_preprocess", "has_postprocess", "talker_mtp")


class Served(NamedTuple):
    """Class names of the models that vllm-omni registers, by what they need."""

    by_p0_and_p1: tuple[str, ...]
    by_methods_too: tuple[str, ...]
    by_mtp_too: tuple[str, ...]


def served(requirement: str) -> Served:
    """The registered models of a release, split by the phases of RFC-005 §4.4 that they need."""
    from omni_migrate.facts.census import take_census
    from omni_migrate.plan.workspace import Workspace
    from omni_migrate.sources import resolve

    census = take_census(Workspace(resolve(requirement, cwd=ROOT).root), "vllm_omni", P2, [])
    registered = {model.name for model in census.classes if model.architectures}
    answering = {name: {model.name for model in census.answering(name)} & registered for name in P2}
    mtp = answering["talker_mtp"]
    methods = (answering["has_preprocess"] | answering["has_postprocess"]) - mtp
    return Served(*(tuple(sorted(names)) for names in (registered - methods - mtp, methods, mtp)))


def main(requirement: str) -> None:
    for needs, names in zip(
        ("P0 and P1", "and model methods (P2)", "and talker MTP (P2)"), served(requirement), strict=True
    ):
        print(f"{needs}: {len(names)}", *names, sep="\n  ")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(*(sys.argv[1:] or ["vllm-omni==0.30.0"]))
