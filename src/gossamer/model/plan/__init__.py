"""What planners and the frontier tell each other."""

from gossamer.model.plan.coverage import FieldCoverage
from gossamer.model.plan.daily import DailyCounts
from gossamer.model.plan.state import DueLane, GroupState, LaneShare, LaneState, Leader, PlanCycle, PlanState

__all__ = [
    "DailyCounts",
    "DueLane",
    "FieldCoverage",
    "GroupState",
    "LaneShare",
    "LaneState",
    "Leader",
    "PlanCycle",
    "PlanState",
]
