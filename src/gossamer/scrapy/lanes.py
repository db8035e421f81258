"""Lanes in Python spiders: declared by the spider, joined by requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from scrapy import Request, Spider

from gossamer.errors import PolicyError
from gossamer.model import LanePolicy, Order, RecordPolicy, SeenPolicy
from gossamer.model.policy import lane_name

MAIN = "main"
"""The lane of requests that name none."""
META = "lane"
ATTRIBUTE = "__gossamer_lane__"
POLICY = "__gossamer_lane_policy__"

CallbackT = TypeVar("CallbackT", bound=Callable[..., Any])


class Lane:
    """A lane of a spider: its name and policy; called with a request, it puts the request into the lane.

        lanes = [Lane("list", tier=1), Lane("post", order="lifo")]
        ...
        yield Lane("post")(response.follow(link, self.parse_post))

    As a decorator of a callback it says that requests with this callback join the lane, and declares it too.
    """

    def __init__(
        self,
        name: str,
        *,
        order: str | Order = Order.FIFO,
        tier: int = 0,
        weight: float = 1.0,
        seen: SeenPolicy | None = None,
        max_queued: int = 0,
        max_leased: int = 0,
        stage: str = "",
        records: RecordPolicy | None = None,
    ) -> None:
        self.name = lane_name(name)
        try:
            self.order = Order(order)
        except ValueError:
            raise PolicyError(f"lane {name!r}: order {order!r} is neither fifo nor lifo.") from None
        self.seen = seen
        self._rest = {
            "tier": tier,
            "weight": weight,
            "max_queued": max_queued,
            "max_leased": max_leased,
            "stage": stage,
            "records": records,
        }

    def policy(self, seen: SeenPolicy) -> LanePolicy:
        """Its policy; `seen` where the lane does not say how it remembers."""
        return LanePolicy(order=self.order, seen=self.seen or seen, **self._rest)  # type: ignore[arg-type]

    def request(self, url: str, *args: Any, **kwargs: Any) -> Request:
        """A request in this lane."""
        return self._put(Request(url, *args, **kwargs))

    def _put(self, request: Request) -> Request:
        request.meta[META] = self.name
        return request

    def __call__(self, target: Any) -> Any:
        if isinstance(target, Request):
            return self._put(target)
        if callable(target):
            setattr(target, ATTRIBUTE, self.name)
            setattr(target, POLICY, self.policy)
            return target
        raise TypeError(f"Lane({self.name!r}) takes a request or a callback, not {type(target).__name__}")

    def __repr__(self) -> str:
        return f"Lane({self.name!r})"


def lane(name: str) -> Callable[[CallbackT], CallbackT]:
    """Decorates a callback: requests with this callback join the lane."""

    def decorate(callback: CallbackT) -> CallbackT:
        setattr(callback, ATTRIBUTE, lane_name(name))
        return callback

    return decorate


def declared(spider: Spider, seen: SeenPolicy, order: Order = Order.FIFO) -> dict[str, LanePolicy]:
    """The lanes of a spider by name: those of its attribute `lanes` (`Lane`s, names, or names with policies), those that
    its callbacks name, and `main`."""
    found: dict[str, LanePolicy] = {}
    lanes = getattr(spider, "lanes", ())
    if isinstance(lanes, str):
        # As an argument (`-a lanes=a,b`) it says which lanes to serve; the class says which there are.
        of_class = getattr(type(spider), "lanes", ())
        lanes = () if isinstance(of_class, str) else of_class
    for entry in _entries(lanes):
        found[entry[0]] = entry[1](seen)
    callbacks = [getattr(type(spider), attribute, None) for attribute in dir(type(spider))]
    named = [(getattr(one, ATTRIBUTE, None), getattr(one, POLICY, None)) for one in callbacks]
    # One callback may declare the lane that another only names.
    for name, policy in sorted(named, key=lambda pair: pair[1] is None):
        if isinstance(name, str):
            found.setdefault(name, LanePolicy(seen=seen) if policy is None else policy(seen))
    found.setdefault(MAIN, LanePolicy(order=order, seen=seen))
    return found


def _entries(lanes: Any) -> Iterable[tuple[str, Callable[[SeenPolicy], LanePolicy]]]:
    if isinstance(lanes, Mapping):
        for name, policy in lanes.items():
            if isinstance(policy, LanePolicy):
                yield lane_name(name), lambda _, policy=policy: policy  # type: ignore[misc]
            elif isinstance(policy, Mapping):
                yield name, Lane(name, **policy).policy
            else:
                raise PolicyError(f"lane {name!r}: give a LanePolicy or a mapping, not {type(policy).__name__}.")
        return
    for entry in lanes:
        made = Lane(entry) if isinstance(entry, str) else entry
        if not isinstance(made, Lane):
            raise PolicyError(f"spider.lanes holds {entry!r}; give names or Lane(...).")
        yield made.name, made.policy
