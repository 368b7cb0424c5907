"""A Ticket's stage, computed from facts: closed states first, then what needs a person."""

from dataclasses import dataclass

from farhand_control_plane.domain.words import Needs, ReportKind, Stage, TicketOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """What is known of one Ticket, read from rows that say something else."""

    outcome: TicketOutcome | None = None
    undelivered: bool = False  # input that could not be brought, or a reply that could not be sent
    open_question: bool = False
    draft_waiting: bool = False  # an outward message that a person must approve
    latest_report: ReportKind | None = None
    names_something_to_accept: bool = False  # the latest report does
    report_delivered: bool = False  # the latest report reached people
    human_since_report: bool = False
    ever_assigned: bool = True
    assigned: bool = True  # a live Assignment
    tombstoned: bool = False  # the newest Assignment ended because its session gave up
    session_busy: bool = True  # stepped, ready, or with messages that will wake it
    open_commands: int = 0
    waiting_commands: int = 0  # of those: queued for a machine that is offline


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    stage: Stage
    needs: Needs | None = None


def stage_of(facts: StageFacts) -> StageView:
    """Return the stage; the first rule that matches wins."""
    if facts.outcome is not None:
        return StageView(stage=Stage.CLOSED)
    needs = _needs(facts)
    if needs is not None:
        return StageView(stage=Stage.NEEDS_PERSON, needs=needs)
    if not facts.ever_assigned or _waits_for_machines(facts):
        return StageView(stage=Stage.QUEUED)
    if not facts.assigned or _has_nothing_to_do(facts):
        return StageView(stage=Stage.IDLE)
    return StageView(stage=Stage.WORKING)


def _needs(facts: StageFacts) -> Needs | None:
    """In the order in which a person should deal with them."""
    if facts.undelivered:
        return Needs.DELIVERY
    if facts.open_question:
        return Needs.ANSWER
    # A ready report with nothing to accept closes its Ticket once delivered: nobody has to act.
    if facts.draft_waiting or (
        facts.latest_report is ReportKind.READY and facts.names_something_to_accept
    ):
        return Needs.REVIEW
    if facts.latest_report is ReportKind.BLOCKED and not facts.human_since_report:
        return Needs.BLOCKED
    if facts.tombstoned or (
        facts.latest_report is ReportKind.FAILED and not facts.human_since_report
    ):
        return Needs.FAILED
    return None


def _waits_for_machines(facts: StageFacts) -> bool:
    return facts.open_commands > 0 and facts.open_commands == facts.waiting_commands


def _has_nothing_to_do(facts: StageFacts) -> bool:
    being_delivered = facts.latest_report is ReportKind.READY and not facts.report_delivered
    return not facts.session_busy and facts.open_commands == 0 and not being_delivered
