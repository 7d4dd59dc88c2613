"""What this machine has, and what each missing thing costs you. Needs no torch to say so."""

from labkit.doctor.command import add_arguments, run
from labkit.doctor.examine import report
from labkit.doctor.report import Finding, Report

__all__ = ["Finding", "Report", "add_arguments", "report", "run"]
