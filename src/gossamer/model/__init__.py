"""Frozen values that every room speaks in."""

from gossamer.model.document import Document, DocumentInfo, PageName
from gossamer.model.plan import DailyCounts, DueLane, GroupState, LaneShare, LaneState, Leader, PlanCycle, PlanState
from gossamer.model.plan.page_record import (
    LaneFeed,
    PageEvent,
    PageInfo,
    PageState,
    PageVisit,
    RecordPolicy,
    RequestPlace,
    RevisitRules,
)
from gossamer.model.policy import GroupPolicy, HostPolicy, LanePolicy, Order, SeenKind, SeenPolicy, SeenScope
from gossamer.model.reply import (
    Added,
    AddOutcome,
    Counts,
    DeadLetter,
    Drained,
    EndState,
    ExchangeReply,
    GroupCounts,
    Hints,
    HostInfo,
    LaneCounts,
    PartitionState,
    RoundInfo,
    SeenInfo,
    SettleOutcome,
    StartState,
    WorkerInfo,
)
from gossamer.model.request import (
    CounterChange,
    CounterOp,
    Ending,
    Feedback,
    Fetched,
    HostVerdict,
    Lease,
    Request,
    Selection,
    Sent,
    Settlement,
    Task,
    Token,
    fingerprint,
    host_of,
    inherited,
)
from gossamer.model.scan import ScannedDeadLetter, ScannedRequest, ScanPage, SeenPage

__all__ = [
    "AddOutcome", "Added", "CounterChange", "CounterOp", "Counts", "DailyCounts", "DeadLetter", "Document",
    "DocumentInfo", "Drained", "DueLane", "EndState", "Ending", "ExchangeReply", "Feedback", "Fetched",
    "GroupCounts", "GroupPolicy", "GroupState", "Hints", "HostInfo", "HostPolicy", "HostVerdict", "LaneCounts",
    "LaneFeed", "LanePolicy", "LaneShare", "LaneState", "Leader", "Lease", "Order", "PageEvent", "PageInfo",
    "PageName", "PageState", "PageVisit", "PartitionState", "PlanCycle", "PlanState", "RecordPolicy", "Request",
    "RequestPlace", "RevisitRules", "RoundInfo", "ScanPage", "ScannedDeadLetter", "ScannedRequest", "SeenInfo",
    "SeenKind", "SeenPage", "SeenPolicy", "SeenScope", "Selection", "Sent", "SettleOutcome", "Settlement",
    "StartState", "Task", "Token", "WorkerInfo", "fingerprint", "host_of", "inherited",
]  # fmt: skip
