"""One connection to one server, owned by one task.

The scopes and task groups of the protocol's SDK must be left by the task that entered them, in the
reverse order. A caller who closes connections in another order, or from another task, could not promise
that; so a task of the connection's own, outside every scope of its callers, enters them, waits, and
leaves them. Callers only hand it requests. Each request runs in a task of the connection too, so that
cancelling a call never interrupts the SDK in the middle of anything: the call gives its request up, and
the connection stays as it was (`TP-6`).

What becomes of a request that its call gives up: if not one byte of it was written, it is withdrawn and
the server hears nothing. Otherwise the server is told once, in a shield that ends soon even if the server
does not read, and is then given the declared grace to answer (`TP-5`). A result within the grace is the
result of the body, be it a value, which the cancellation withholds, or a failure of the tool, which stands.
An error of the protocol instead of a result answers the withdrawal: servers that may not stay silent, such
as those behind HTTP, have no other answer. It is told by its place in the message and its time, never by
its text or code (`TP-1`), and ends the call as cancelled (`TP-3`). What comes later finds nobody (`TP-4`).
"""

import itertools
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast, final

import trio
from attrs import define, field
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    Implementation,
    PaginatedRequestParams,
    RequestId,
    Tool,
)
from pydantic import ValidationError

from trio_tools import TransportError

from ._faults import answer_fault, gone_fault, malformed_fault, remote_text, start_fault, unsent_fault
from ._streams import MALFORMED
from ._transport import Link, Transport

__all__ = ["Connection", "Progress"]

Progress = Callable[[float, float | None, str | None], None]

logger = logging.getLogger("trio_tools.mcp")

# How long telling a server that its answer is no longer wanted may take, if it does not read.
_NOTICE_SECONDS: Final = 1.0
# How long leaving a session may take, which over HTTP says goodbye.
_GOODBYE_SECONDS: Final = 3.0
_MOST_PAGES: Final = 1000
# Far from the ids that the SDK gives its own requests, counting from one, so that they never meet. They are
# numbers because servers exist that know no others.
_FIRST_ID: Final = 1_000_001


@final
@define(eq=False)
class _Exchange:
    """One request and what became of it."""

    id: RequestId
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    started: bool = False
    withdrawn: bool = False
    answer: CallToolResult | None = None
    fault: TransportError | None = None
    done: trio.Event = field(factory=trio.Event)


# The SDK's session mints its own request ids and tells nobody. A request made in a task of ours is
# recognised by this variable on its way to the wire.
_current: ContextVar[_Exchange | None] = ContextVar("trio_tools.mcp.exchange", default=None)


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's own, but for three things.

    The request bears our id, giving it up is our business, and a notification that the SDK trips over, as
    it does over a progress too large for a float, costs nobody the connection.
    """

    def _dispatch_notification(self, msg: Any, metadata: Any, on_notify: Any, sender_ctx: Any) -> None:
        try:
            super()._dispatch_notification(msg, metadata, on_notify, sender_ctx)
        except Exception:
            logger.debug("a notification is passed over", exc_info=True)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        if (exchange := _current.get()) is not None:
            ours: CallOptions = {"request_id": exchange.id, "cancel_on_abandon": False}
            opts = {**(opts or {}), **ours}
        return await super().send_raw_request(method, params, opts, **related)


@final
@define(eq=False)
class Connection:
    """A connection to a server; see the head of the file.

    Attributes:
        server: what messages call the server.
        tools: what the server listed when the connection was opened.
    """

    server: str
    _transport: Transport
    _grace: float
    _start_seconds: float
    tools: tuple[Tool, ...] = field(default=(), init=False)
    _serial: "itertools.count[int]" = field(factory=lambda: itertools.count(_FIRST_ID), init=False)
    _exchanges: dict[RequestId, _Exchange] = field(factory=dict[RequestId, _Exchange], init=False)
    _starting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _opened: trio.Event = field(factory=trio.Event, init=False)
    _closing: trio.Event = field(factory=trio.Event, init=False)
    _closed: trio.Event = field(factory=trio.Event, init=False)
    _fault: TransportError | None = field(default=None, init=False)
    _link: Link | None = field(default=None, init=False)
    _session: ClientSession | None = field(default=None, init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)

    async def open(self) -> None:
        """Start the owner and wait until the server has listed its tools.

        Raises:
            TransportError: when the server cannot be reached or does not speak the protocol. Nothing is
                left running then, or if this is cancelled.
        """
        trio.lowlevel.spawn_system_task(self._own, name=f"connection to {self.server}")
        try:
            await self._opened.wait()
        except trio.Cancelled:
            await self.close()  # noqa: ASYNC102  (shielded and bounded in there)
            raise
        if self._fault is not None:
            await self.close()
            raise self._fault

    async def close(self) -> None:
        """End the connection and wait until nothing of it is left. Never cancelled; bounded.

        A call that is still under way fails with the one error that says it was cancelled (`TP-3`).
        """
        with trio.CancelScope(shield=True):
            self._closing.set()
            self._starting.cancel()
            if self._link is not None:
                self._link.hang_up()
            await self._closed.wait()

    async def call(self, tool: str, arguments: Mapping[str, Any], on_progress: Progress) -> CallToolResult:
        """Call one tool of the server. A checkpoint; when cancelled, see the head of the file.

        Raises:
            TransportError: when the server is gone, answers with an error or with nonsense; flagged when
                the connection is closed by its own side (`TP-1` to `TP-4`).
        """
        if self._nursery is None or self._closing.is_set():
            raise self._fault or TransportError(
                f'the connection to server "{self.server}" is closed; open it again'
            )
        exchange = _Exchange(next(self._serial))
        self._exchanges[exchange.id] = exchange
        self._nursery.start_soon(self._perform, exchange, tool, arguments, on_progress)
        try:
            await exchange.done.wait()
        except trio.Cancelled:  # noqa: ASYNC103  (an answer within the grace is the answer)
            await self._give_up(exchange)  # noqa: ASYNC102  (shielded and bounded in there)
            if exchange.answer is None and exchange.fault is None:
                raise
        if exchange.fault is not None:
            raise exchange.fault
        if exchange.answer is None:
            if self._closing.is_set():
                raise TransportError.for_cancelled_call(self.server)
            raise gone_fault(self.server, tool, "became unreachable", sent=exchange.started)
        return exchange.answer

    async def _give_up(self, exchange: _Exchange) -> None:
        exchange.withdrawn = True
        with trio.CancelScope(shield=True):
            if not exchange.started:
                exchange.scope.cancel()
                await exchange.done.wait()
                return
            with trio.move_on_after(_NOTICE_SECONDS):
                await self._tell_cancelled(exchange.id)
            with trio.move_on_after(self._grace):
                await exchange.done.wait()
            # From here on a late answer finds nobody. The task may still be stuck in the pipe of a server
            # that does not read; it belongs to the connection, not to the call.
            exchange.scope.cancel()

    async def _tell_cancelled(self, request: RequestId) -> None:
        assert self._session is not None
        params = CancelledNotificationParams(request_id=request, reason="the call was cancelled")
        await self._session.send_notification(CancelledNotification(params=params))

    async def _perform(
        self, exchange: _Exchange, tool: str, arguments: Mapping[str, Any], on_progress: Progress
    ) -> None:
        assert self._session is not None
        _current.set(exchange)

        async def report(  # noqa: ASYNC124  (the SDK awaits it)
            progress: float, total: float | None, message: str | None
        ) -> None:
            on_progress(progress, total, message)

        try:
            with exchange.scope:
                request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
                try:
                    exchange.answer = await self._session.send_request(
                        request, CallToolResult, progress_callback=report
                    )
                except MCPError as error:
                    if self._closing.is_set():
                        return
                    exchange.fault = await self._fault_of(error, exchange, tool)
                except ValidationError:
                    exchange.fault = malformed_fault(self.server, tool, "the answer is no tool result")
                except Exception as error:  # noqa: BLE001  (whatever the SDK trips over ends one call only)
                    exchange.fault = unsent_fault(self.server, tool, f"{type(error).__name__}: {error}")
        finally:
            del self._exchanges[exchange.id]
            exchange.done.set()

    async def _fault_of(self, error: MCPError, exchange: _Exchange, tool: str) -> TransportError:
        assert self._link is not None
        how = await self._link.how_it_went()
        if how is not None:
            return gone_fault(self.server, tool, how, sent=exchange.started)
        if exchange.withdrawn:
            return TransportError.for_cancelled_call(self.server)
        if error.code == PARSE_ERROR and error.message == MALFORMED:
            return malformed_fault(self.server, tool, MALFORMED)
        return answer_fault(self.server, tool, error.message)

    def _on_start(self, request: RequestId) -> None:
        if (exchange := self._exchanges.get(request)) is not None:
            exchange.started = True

    async def _own(self) -> None:
        """Be the owner: enter, wait, leave. Nothing escapes, for that would end the whole trio run."""
        try:
            with trio.CancelScope() as life:
                async with self._transport.open(self.server, self._on_start) as link:
                    self._link = link
                    await self._own_session(link)
                    life.deadline = trio.current_time() + _GOODBYE_SECONDS
        except Exception as error:
            self._fault = _owners_fault(self.server, error, opened=self._opened.is_set())
            logger.debug("the connection to %s ended with an error", self.server, exc_info=error)
        finally:
            self._opened.set()
            self._closed.set()

    async def _own_session(self, link: Link) -> None:
        dispatcher = _Dispatcher(link.source, link.sink)
        async with ClientSession(dispatcher=dispatcher, client_info=_who_we_are()) as session:
            self._session = session
            with self._starting:
                try:
                    with trio.fail_after(self._start_seconds):
                        await _shake_hands(session)
                        self.tools = await _list_tools(session)
                except trio.TooSlowError:
                    what = f"no answer to the handshake within {self._start_seconds:g} s"
                    raise start_fault(self.server, what, "is it an MCP server?") from None
                except Exception as error:
                    raise await self._handshake_fault(error) from error
            if self._closing.is_set():
                return
            link.greet()
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._opened.set()
                try:
                    await self._closing.wait()
                finally:
                    self._nursery = None
                    nursery.cancel_scope.cancel()

    async def _handshake_fault(self, error: Exception) -> TransportError:
        assert self._link is not None
        how = await self._link.how_it_went()
        if how is not None:
            said = self._link.last_words()
            return start_fault(self.server, f"it {how} before it had answered{said and f'; it said: {said}'}")
        if isinstance(error, MCPError):
            return start_fault(
                self.server, f"it answered the handshake with an error: {remote_text(error.message)}"
            )
        return start_fault(self.server, f"a malformed answer to the handshake ({type(error).__name__})")


async def _shake_hands(session: ClientSession) -> None:
    try:
        await session.initialize()
    except MCPError as error:
        # A server that speaks only the protocol of one request at a time knows no handshake.
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


async def _list_tools(session: ClientSession) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    params: PaginatedRequestParams | None = None
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=params)
        tools += page.tools
        if page.next_cursor is None:
            return tuple(tools)
        params = PaginatedRequestParams(cursor=page.next_cursor)
    raise MCPError(PARSE_ERROR, f"the list of tools does not end after {_MOST_PAGES} pages")


def _who_we_are() -> Implementation:
    try:
        return Implementation(name="trio-tools", version=version("trio-tools"))
    except PackageNotFoundError:
        return Implementation(name="trio-tools", version="0")


def _owners_fault(server: str, error: Exception, *, opened: bool) -> TransportError:
    leaf: Exception = error
    while isinstance(leaf, ExceptionGroup):
        leaf = cast("ExceptionGroup[Exception]", leaf).exceptions[0]
    if isinstance(leaf, TransportError):
        return leaf
    what = remote_text(f"{type(leaf).__name__}: {leaf}")
    if opened:
        return TransportError(f'the connection to server "{server}" broke: {what}; open it again')
    return start_fault(server, f"it cannot be reached ({what})", "correct the address, or start the server")
