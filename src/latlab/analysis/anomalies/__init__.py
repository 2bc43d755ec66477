"""Anomalies: events that noise does not explain, class by class (docs/explanation/anomalies.md)."""

from latlab.analysis.anomalies.classes import CLASSES, CODE, NAMES, NONE, AnomalyClass
from latlab.analysis.anomalies.context import Context
from latlab.analysis.anomalies.find import Anomalies, by_class, find_anomalies
from latlab.analysis.anomalies.thresholds import THRESHOLDS, AnomalyThresholds

__all__ = [
    "CLASSES",
    "CODE",
    "NAMES",
    "NONE",
    "THRESHOLDS",
    "Anomalies",
    "AnomalyClass",
    "AnomalyThresholds",
    "Context",
    "by_class",
    "find_anomalies",
]
