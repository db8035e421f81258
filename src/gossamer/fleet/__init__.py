"""Workers of this machine, looked after: started, watched, replaced when killed, stopped in good order."""

from gossamer.fleet.fleet import Fleet, WorkerProcess, stop_on_signals

__all__ = ["Fleet", "WorkerProcess", "stop_on_signals"]
