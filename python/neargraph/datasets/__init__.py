"""Graphs that can be built on the spot: Debian's packages, and generated ones."""

from .debian import AptListsMissing, plan_debian, read_apt
from .generated import plan_generated

__all__ = ["AptListsMissing", "plan_debian", "plan_generated", "read_apt"]
