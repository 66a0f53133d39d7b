"""fit, resume, status and cancel: everything is checked before a run begins, outputs are written after."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Optional

from cerebro_db import autopack, catalog, hopper, hosts, outputs
from cerebro_db.architecture import Architecture
from cerebro_db.client import PsycopgDatabase
from cerebro_db.coordinator import POLL_SECONDS, Coordinator
from cerebro_db.database import Database, Row, one, together
from cerebro_db.errors import CancelledError, RunError, UsageError, line_of
from cerebro_db.plan import Plan
from cerebro_db.planning import FitRequest, Planned, plan_fit, segments_ahead
from cerebro_db.sessions import ServerError, Sessions, interruptible, why_lost
from cerebro_db.sqltext import TableName, query
from cerebro_db.strategies import registry
from cerebro_db.strategies.base import Strategy
from cerebro_db.strategies.ledger import cut_off
from cerebro_db.weights import shapes

#: How often a coordinator looks whether another session asked to cancel its run [s].
WISH_SECONDS = 1.0
Check = Callable[[], None]


@dataclass(frozen=True)
class Host:
    """Where the coordinator runs: the caller's session, how it looks for interrupts, and how it opens sessions."""

    database: Database
    check: Check
    #: Given the seconds that a session waits for a lock, and those that an idle one stays for the caller's next call.
    sessions: Callable[[float, float], Sessions]
    #: Makes what runs inside give way to `check`; gives the function to call in place of it.
    interruptible: Callable[[Check], AbstractContextManager[Check]] = interruptible
    #: Whether the caller waits in a statement of this server, which a cancel of the run cancels.
    in_backend: bool = True


def fit(host: Host, request: FitRequest) -> Row:
    """Train all configs of a selection table: madlib_mop_fit. Gives the row that SQL shows.

    Raises UsageError, DataError and their kin before anything is created, RunError afterwards.
    """
    started = time.monotonic()
    options = request.parsed_options(host.database)
    registry.require(host.database, options.strategy)
    with ExitStack() as stack:
        check = stack.enter_context(host.interruptible(host.check))
        sessions = stack.enter_context(host.sessions(options.lock_seconds, options.keep_seconds))
        segments = segments_ahead(host.database, request, options)
        stack.enter_context(registry.under_way(options, sessions, segments))
        copies: List[TableName] = []
        try:
            planned = plan_fit(host.database, sessions, request, options, copies)
            run_id = _train_new(replace(host, check=check), sessions, planned)
        except UsageError:  # no run has begun: a refused call leaves nothing behind
            with sessions.connect() as session:
                autopack.drop(session, copies)
            raise
    return _deliver(host, run_id, planned.plan, started)


def resume(host: Host, run_id: int) -> Row:
    """Finish a run that was killed, cancelled or failed: madlib_mop_resume.

    No finished hop runs again. Raises MissingError for a run that is not the caller's, RunError
    when it still runs or has finished, or when its packed rows are no longer what they were.
    """
    started = time.monotonic()
    row = catalog.run_row(host.database, run_id)
    if row["status"] == "finished":
        raise RunError(f"run {run_id} has finished; its models are in {row['model_output_table']}")
    plan = catalog.Catalog(host.database, run_id).plan()
    outputs.require_free(host.database, plan.outputs)
    registry.require(host.database, plan.options.strategy)
    if row["status"] != "trained":
        _train_on(host, run_id, plan)
    return _deliver(host, run_id, plan, started)


def cancel(database: Database, run_id: int) -> bool:
    """End a run from another session: madlib_mop_cancel. Raises RunError when it does not run."""
    row = catalog.run_row(database, run_id)
    if not one(database, query("catalog", "cancel_run"), run_id=run_id)["cancelled"]:
        raise RunError(f"run {run_id} is {row['status']}, not running; only a running run can be cancelled")
    return True


def status(database: Database, run_id: Optional[int]) -> List[Row]:
    """Progress of a run, or of all the caller's runs: madlib_mop_status."""
    if run_id is not None:
        catalog.run_row(database, run_id)
    return database.rows(query("catalog", "progress"), run_id=run_id)


def forget(database: Database, run_id: int) -> None:
    """Remove a run with its states and history; its output tables stay."""
    catalog.run_row(database, run_id)
    database.rows(query("catalog", "forget_run"), run_id=run_id)


def _train_new(host: Host, sessions: Sessions, planned: Planned) -> int:
    plan = planned.plan
    strategy = registry.open_strategy(plan, sessions)
    sessions.ahead(0)
    try:
        first = {key: shapes(blob, f"weights of mst_key {key}") for key, blob in planned.initial.items()}
        strategy.check(plan, first)
        _await_sessions(strategy, host.check)
        plan = replace(plan, groups=strategy.groups)
        planned = replace(planned, plan=plan)
        with sessions.connect() as control:
            with control.transaction():
                log = catalog.start_run(control, plan, planned.heading)
                for mst_key, weights in planned.initial.items():
                    log.save_initial(mst_key, weights)
            with _recorded(log):  # from here on a cancel is written down
                _claim(host, log, sessions)
                _coordinate(Training(host, strategy, control, log, plan), _fresh_state(plan))
    finally:
        strategy.close()
    return log.run_id


def _train_on(host: Host, run_id: int, plan: Plan) -> None:
    with ExitStack() as stack:
        host = replace(host, check=stack.enter_context(host.interruptible(host.check)))
        options = plan.options
        sessions = stack.enter_context(host.sessions(options.lock_seconds, options.keep_seconds))
        stack.enter_context(registry.under_way(options, sessions, len(plan.segments)))
        control = stack.enter_context(sessions.connect())
        outputs.require_unchanged(control, plan)
        if registry.in_server(plan.options.strategy):
            hosts.require_alike(control, f"strategy {plan.options.strategy}")
        log = catalog.Catalog(control, run_id)
        _claim(host, log, sessions)
        stack.enter_context(_recorded(log))
        if not log.trainers_gone():
            raise RunError(f"a session that trained run {run_id} before has not ended yet; resume it again in a moment")
        strategy = registry.open_strategy(plan, sessions)
        sessions.ahead(0)
        stack.callback(strategy.close)
        training = Training(host, strategy, control, log, plan)
        _await_sessions(strategy, training.check)
        _coordinate(training, _resumed_state(plan, log))


def _claim(host: Host, log: catalog.Catalog, sessions: Sessions) -> None:
    """Become the run's only coordinator, and the one that madlib_mop_cancel finds."""
    if not log.claim(sessions.caller_pid):
        raise RunError(f"run {log.run_id} is still running; watch it in cerebro.progress")
    if host.in_backend:
        host.database.rows(query("catalog", "mark_coordinator"), run_id=log.run_id)


def _await_sessions(strategy: Strategy, check: Check) -> None:
    while not strategy.ready(POLL_SECONDS):
        check()


@contextmanager
def _recorded(log: catalog.Catalog) -> Iterator[None]:
    """Record how the training inside ended, whatever ends it."""
    try:
        yield
    except BaseException as error:
        cut = cut_off(line_of(error), log.run_id) if isinstance(error, ServerError) else None
        _end(log, **_ending(cut or error))
        if cut is not None:
            raise cut from error
        raise
    log.end_run("trained")
    log.release()


def _end(log: catalog.Catalog, **ending: Any) -> None:
    """Write the end down where the session allows; without it the run shows as interrupted.

    Twice, because the cancel of a statement that was over just then ends the next one of its session.
    """
    for _ in range(2):
        with suppress(ServerError):
            log.end_run(**ending)
            log.release()
            return


def _ending(error: BaseException) -> Dict[str, Any]:
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(error, KeyboardInterrupt) or code == CancelledError.sqlstate:
        return {"status": "cancelled", "error": "cancelled by its caller"}
    return {"status": "failed", "error": str(error)}


@dataclass
class Training:
    """What a run needs while it trains."""

    host: Host
    strategy: Strategy
    #: A session of the run's own, whose writes are seen at once.
    control: PsycopgDatabase
    log: catalog.Catalog
    plan: Plan
    #: When to look for a wish to cancel, by time.monotonic().
    due: float = 0.0

    def check(self) -> None:
        """Look for interrupts, for a cancel, and whether the run still holds the lock that makes it the only one."""
        self.host.check()
        self._require_lock()
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + WISH_SECONDS
            if self.log.cancel_wished():
                raise CancelledError(
                    f"run {self.log.run_id} was cancelled from another session; its finished hops are kept"
                )

    def _require_lock(self) -> None:
        reason = why_lost(self.control)
        if reason is not None:
            raise RunError(
                f"run {self.log.run_id} lost the session that keeps its records ({reason}); its finished hops are "
                f"kept: select madlib_mop_resume({self.log.run_id})"
            )


def _coordinate(training: Training, state: hopper.State) -> None:
    """Train to the end in sessions that are ready."""
    log, plan = training.log, training.plan
    for remark in (*getattr(training.strategy, "remarks", ()), *_fused(plan)):
        training.host.database.notice(remark)
    training.strategy.begin(log.run_id)
    announce = outputs.Announcer(training.host.database, training.control, log.run_id, plan)
    coordinator = Coordinator(training.strategy, log, training.check, announce.epoch_done)
    coordinator.ended.update(dict.fromkeys(_stopped(state), "stopped"))
    coordinator.run(state)
    if has_own_code(plan):
        training.strategy.close()
    else:
        training.strategy.rest()


def has_own_code(plan: Plan) -> bool:
    """Whether a config's module is made by listed code, which its author may change before the next call."""
    return any(Architecture.parse(config.model_arch).kind == "factory" for config in plan.configs)


def _fused(plan: Plan) -> Iterator[str]:
    """What the caller is told of configs that are trained as one."""
    if plan.groups:
        sizes = ", ".join(str(len(group)) for group in plan.groups)
        yield f"configs of one shape are trained together, in groups of {sizes}; option fuse 'off' trains each alone"


def _fresh_state(plan: Plan) -> hopper.State:
    return hopper.replay(_empty_state(plan), catalog.first_events(plan))


def _resumed_state(plan: Plan, log: catalog.Catalog) -> hopper.State:
    """Fold the log; every segment's session is gone, so each is down until it comes up again."""
    state = hopper.replay(_empty_state(plan), log.events())
    for segment in sorted(state.up):
        event = hopper.SegmentDown(segment, "resumed")
        log.record(event)
        state = hopper.step(state, event).state
    return state


def _empty_state(plan: Plan) -> hopper.State:
    segments = tuple(segment.segment_id for segment in plan.segments)
    return hopper.State(segments, plan.options.order, plan.options.max_failures, groups=plan.groups)


def _stopped(state: hopper.State) -> List[int]:
    return [config for config, epochs in state.epochs.items() if epochs == 0]


def _deliver(host: Host, run_id: int, plan: Plan, started: float) -> Row:
    """Write the outputs in the caller's transaction, or in one of their own, and give the row that SQL shows."""
    with together(host.database):
        best = outputs.write(host.database, run_id, plan)
    return {
        "run_id": run_id,
        "status": "finished",
        "configs": len(plan.configs),
        "best_mst_key": best.get("mst_key"),
        "best_metric": best.get("metric"),
        "seconds": round(time.monotonic() - started, 3),
    }
