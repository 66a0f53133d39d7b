"""From the arguments of a fit to a plan: everything that can be wrong is found here, before a run begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from cerebro_db import environment, hosts, names, outputs, packing, params, selection
from cerebro_db.autopack import packed_or_pack
from cerebro_db.database import Database, one
from cerebro_db.engines import on_greenplum
from cerebro_db.errors import RunError, SetupError, UsageError
from cerebro_db.options import SETTINGS, Options
from cerebro_db.plan import ConfigPlan, Plan, SegmentPlan
from cerebro_db.sessions import Sessions
from cerebro_db.sqltext import TableName, query
from cerebro_db.strategies import registry


@dataclass(frozen=True)
class FitRequest:
    """The arguments of madlib_mop_fit, as SQL passes them."""

    source_table: Optional[str]
    model_output_table: Optional[str]
    model_selection_table: Optional[str]
    num_iterations: Optional[int]
    use_gpus: Optional[bool] = False
    validation_table: Optional[str] = None
    #: Report metrics, and validate, every n-th epoch and after the last; None means every epoch.
    metrics_compute_frequency: Optional[int] = None
    warm_start: Optional[bool] = False
    name: Optional[str] = None
    description: Optional[str] = None
    #: False reads rows again in every hop instead of keeping them within `cache_mb`.
    use_caching: Optional[bool] = True
    strategy: Optional[str] = None
    #: JSON object over the settings `cerebro.<name>`, see `options.Options`.
    options: Optional[str] = None

    def parsed_options(self, database: Database) -> Options:
        """Arguments of their own over the argument `options` over settings over defaults."""
        settings = {row["name"]: row["setting"] for row in database.rows(query("planning", "settings"), names=SETTINGS)}
        arguments: Dict[str, Any] = {} if self.strategy is None else {"strategy": self.strategy}
        if self.use_caching is False:
            arguments["cache_mb"] = 0
        return Options.parse(self.options, settings, arguments)


@dataclass(frozen=True)
class Planned:
    """A plan and what goes with it into the catalog."""

    plan: Plan
    #: strategy, ranking, model_selection_table, name, description.
    heading: Dict[str, Optional[str]]
    #: mst_key -> weights to start from.
    initial: Dict[int, bytes]


def segments_ahead(database: Database, request: FitRequest, options: Options) -> int:
    """How many segments a fit will have, from what is quick to read. Raises UsageError for plain mistakes."""
    names.require(database, request.model_selection_table, "model_selection_table")
    source = names.require(database, request.source_table, "source_table")
    outputs.plan_outputs(database, request.model_output_table, bool(request.warm_start))
    if packing.is_packed(database, source):
        return packing.segment_count(database, source)
    return options.segments or packing.default_segments(database)


def plan_fit(
    database: Database, sessions: Sessions, request: FitRequest, options: Options, copies: List[TableName]
) -> Planned:
    """Check every argument and read every table that a run needs.

    Creates nothing but, when the source is not packed yet, its packed copy, and that last; what it
    created is added to `copies`.
    """
    _check_session(database)
    if request.use_gpus:
        raise SetupError("use_gpus is true, but this version trains on CPUs only; pass use_gpus := false")
    epochs, frequency = _check_epochs(request)
    selection_table = names.require(database, request.model_selection_table, "model_selection_table")
    source = names.require(database, request.source_table, "source_table")
    made = outputs.plan_outputs(database, request.model_output_table, bool(request.warm_start))
    configs = selection.read_selection(database, str(selection_table))
    initial = {config.mst_key: config.model_weights for config in configs if config.model_weights}
    configs_planned = tuple(_config_plan(config) for config in configs)
    validation_table = None
    if request.validation_table is not None:
        validation_table = names.require(database, request.validation_table, "validation_table")
    with sessions.connect() as session:
        if registry.in_server(options.strategy):
            hosts.require_alike(session, f"strategy {options.strategy}")
            _require_clock(session, options)
        for table in filter(None, (source, validation_table)):
            _require_visible(database, session, table)
        schema = made.table.schema
        packed = packed_or_pack(session, source, schema, options, copies)
        _require_spread(packed)
        validation = packed if validation_table == source else None
        if validation_table is not None and validation is None:
            validation = packed_or_pack(session, validation_table, schema, options, copies, training=packed)
            _check_same_layout(packed, validation)
    if request.warm_start:
        initial = outputs.previous_weights(database, made, configs_planned)
    plan = Plan(
        source=source,
        packed=packed.table,
        packed_at=packed.packed_at,
        validation=validation.table if validation else None,
        layout=packed.layout,
        segments=tuple(SegmentPlan(s.segment_id, s.dist_key, s.rows) for s in packed.segments),
        configs=configs_planned,
        epochs=epochs,
        metrics_frequency=frequency,
        options=options,
        outputs=made.to_dict(str(selection_table)),
        threads=options.threads or max(1, _cores(database, options) // max(1, len(packed.segments))),
    )
    heading = {
        "strategy": options.strategy,
        "ranking": ranking(configs_planned),
        "model_selection_table": str(selection_table),
        "name": request.name,
        "description": request.description,
    }
    return Planned(plan, heading, {key: weights for key, weights in initial.items() if weights})


def _cores(database: Database, options: Options) -> int:
    """Processors where the run will train."""
    if registry.in_server(options.strategy):
        return int(one(database, query("packing", "cores"))["cores"])
    return environment.cores()


def ranking(configs: Tuple[ConfigPlan, ...]) -> str:
    """How configs compare: by their common metric, else by loss."""
    metrics = {config.compiled.metric for config in configs}
    if len(metrics) != 1 or None in metrics:
        return "loss"
    return "metric_higher" if params.higher_is_better(str(metrics.pop())) else "metric_lower"


def _check_epochs(request: FitRequest) -> Tuple[int, int]:
    epochs, frequency = request.num_iterations, request.metrics_compute_frequency
    if epochs is None or epochs < 1:
        raise UsageError(f"num_iterations is {epochs}, expected 1 or more: the number of passes over the rows")
    if frequency is not None and not 1 <= frequency <= epochs:
        raise UsageError(
            f"metrics_compute_frequency is {frequency}, expected 1 to num_iterations ({epochs}), "
            "or NULL for every epoch"
        )
    return epochs, frequency or 1


def _check_session(database: Database) -> None:
    """The run's sessions must see what the caller sees, and the caller what they commit."""
    facts = one(database, query("planning", "session"))
    if facts["isolation"] != "read committed":
        raise UsageError(
            f"the transaction is {facts['isolation']}, in which the caller would not see what the run commits; "
            "call it in a READ COMMITTED transaction"
        )
    if facts["read_only"]:
        raise UsageError("the transaction is read only, but a run writes its models; call it in a read-write one")


def _require_clock(session: Database, options: Options) -> None:
    if options.profile and on_greenplum(session):
        raise UsageError(
            f"option profile is true, but with strategy {options.strategy} processes of Greenplum's segments train, "
            "which have no clock for it; take a strategy with worker processes, such as 'streaming'"
        )


def _require_visible(database: Database, session: Database, table: TableName) -> None:
    """Refuse at once what the run's sessions would wait for, or never see."""
    if names.find(session, table) is None:
        raise RunError(
            f"table {table} was created in this transaction, which has not committed, so the run's sessions cannot "
            "see it; commit first, then fit"
        )
    facts = one(database, query("planning", "table_lock", table=table.sql()), schema=table.schema, name=table.name)
    if facts["locked"]:
        raise RunError(
            f"table {table} is locked by this very transaction ({facts['locked']}), so the run's sessions would wait "
            "for ever; commit first, then fit"
        )


def _require_spread(packed: packing.Packed) -> None:
    if packed.everywhere:
        raise UsageError(
            f"source_table {packed.table} is packed to validate on, so every segment has a copy of all its rows; give "
            "the table of training_preprocessor_dl"
        )


def _check_same_layout(packed: packing.Packed, validation: packing.Packed) -> None:
    """Validation rows must decode to what the training rows decode to."""
    ours, theirs = packed.layout, validation.layout
    same = (
        [(i.column, i.kind, i.dtype, i.shape, i.vocabulary) for i in ours.inputs]
        == [(i.column, i.kind, i.dtype, i.shape, i.vocabulary) for i in theirs.inputs]
        and (ours.target.kind, ours.target.dtype, ours.target.shape, ours.target.classes)
        == (theirs.target.kind, theirs.target.dtype, theirs.target.shape, theirs.target.classes)
        and ours.normalizing_const == theirs.normalizing_const
    )
    if not same:
        raise UsageError(
            f"validation_table {validation.table} is packed differently from {packed.table}; pack it by "
            f"validation_preprocessor_dl with training_preprocessor_table {str(packed.table)!r}"
        )


def _config_plan(config: selection.Config) -> ConfigPlan:
    return ConfigPlan(
        config.mst_key, config.model_id, config.model_arch, config.compile_params, config.fit_params
    )


