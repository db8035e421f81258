"""What planners and the frontier tell each other."""

from gossamer.model.plan.daily import DailyCounts
from gossamer.model.plan.state import GroupState, LaneState, Leader, PlanState

__all__ = ["DailyCounts", "GroupState", "LaneState", "Leader", "PlanState"]
