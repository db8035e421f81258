"""Workers of this machine, looked after: started, watched, replaced when killed, stopped in good order."""

from gossamer.fleet.fleet import Fleet, Worker, obeying
from gossamer.fleet.progress import Account, account, look, look_at, with_earlier

__all__ = ["Account", "Fleet", "Worker", "account", "look", "look_at", "obeying", "with_earlier"]
