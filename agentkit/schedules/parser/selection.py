"""Fifth step: the mentions of a request are put together; what doesn't fit stays with the task, or is asked about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentkit.schedules.parser.bounds import is_bound
from agentkit.schedules.parser.language import Language
from agentkit.schedules.parser.meanings import (
    After,
    At,
    Clock,
    Every,
    Excluding,
    Lasting,
    On,
    Part,
    Past,
    Problem,
    Starting,
    Times,
    Until,
    Vague,
    Window,
    Zone,
)
from agentkit.schedules.parser.mentions import PLAIN, STRONG, WEAK, Mention, find_mentions, near
from agentkit.schedules.parser.sentences import Sentence
from agentkit.schedules.parser.timing import Timing, fill

MORE_THAN_ONE = Problem("I read more than one time there. Which one do you mean? I can set one at a time.")

HOW_OFTEN = Problem("How often should it run? I know days, weekdays, dates and times.")
WHEN_EXACTLY = Problem("When exactly should that be?")
_UNITS = ("unit", "part", "weekday", "daykind", "month", "tonight")


@dataclass(slots=True)
class Selection:
    """The timing of a sentence, and the places of its items that said it."""

    timing: Timing
    places: set[int] = field(default_factory=set)


def select(sentence: Sentence, language: Language) -> Selection:
    """Return the timing of a sentence, every mention of time either used, left with the task or asked about."""
    mentions = find_mentions(sentence, language)
    if len(mentions) > 40:
        return Selection(Timing(problem=MORE_THAN_ONE))
    chosen = Selection(Timing())
    vague = [mention for mention in mentions if isinstance(mention.part, Vague)]
    moments = [mention for mention in mentions if not isinstance(mention.part, Vague | Past)]
    past = [mention for mention in mentions if isinstance(mention.part, Past)]
    # "Review the numbers of last week" tells of the past beside a time to come.
    said = [
        mention
        for mention in past
        if not mention.place or any(near(sentence, mention, other, language) for other in moments)
    ]
    told = moments + (said if moments else past)
    for cluster in _clusters(sorted(told, key=lambda mention: mention.place), sentence, language):
        _take(cluster, chosen, sentence, language)
    loose = not chosen.timing.clocks and any(
        near(sentence, mention, other, language)
        for mention in vague
        for other in mentions
        if other.place in chosen.places
    )
    if loose and chosen.timing.every is None and chosen.timing.after is None:
        chosen.timing = replace(chosen.timing, problem=WHEN_EXACTLY)
    if not chosen.timing.has_moment and vague:
        chosen.timing = replace(chosen.timing, vague=vague[0].part)  # type: ignore[arg-type]  # a Vague
        if not _leads_on(vague[0], sentence):
            chosen.places.add(vague[0].place)
    _settle_bounds(chosen, mentions, sentence, language)
    return chosen


def _leads_on(vague: Mention, sentence: Sentence) -> bool:
    """Tell whether words of an event follow that the task can't do without: "when I get home"."""
    following = sentence.items[vague.place + 1 : vague.place + 2]
    return bool(following) and following[0].word[:1].isalpha() and vague.place >= sentence.task


def _clusters(mentions: list[Mention], sentence: Sentence, language: Language) -> list[list[Mention]]:
    """Return the mentions in groups that stand together, the strongest first among equals in place."""
    clusters: list[list[Mention]] = []
    for mention in mentions:
        if clusters and near(sentence, clusters[-1][-1], mention, language):
            clusters[-1].append(mention)
        else:
            clusters.append([mention])
    # Timing before the task's own words decides; a lone weak word never does before a stronger one.
    return sorted(
        clusters,
        key=lambda cluster: (
            max(mention.strength for mention in cluster) == WEAK,
            cluster[0].place >= sentence.task,
            max(mention.strength for mention in cluster) < STRONG,
        ),
    )


def _take(cluster: list[Mention], chosen: Selection, sentence: Sentence, language: Language) -> None:
    timing = chosen.timing
    for mention in cluster:
        if _is_alternative(mention, cluster, sentence, language):
            timing = replace(timing, problem=MORE_THAN_ONE)
        if _is_other_rule(mention.part, chosen.timing):
            chosen.timing = replace(chosen.timing, problem=MORE_THAN_ONE)
            return
        filled = fill(timing, mention.part)
        if filled is not None and filled.weekday is not None and timing.weekday is None:
            # "tomorrow, Wednesday," is one day; "tomorrow and on Friday" are two.
            joiner = sentence.items[mention.place - 1].word if mention.place else ""
            apart = joiner in language.intent.joiners - {","} or chosen.timing.day is not None
            filled = None if apart else filled
        if filled is None:
            _refuse(cluster, mention, chosen, sentence, language)
            return
        timing = filled
    if isinstance(cluster[0].part, Zone) and len(cluster) == 1:
        return
    chosen.timing = timing
    chosen.places |= {mention.place for mention in cluster}


def _is_other_rule(part: Part, timing: Timing) -> bool:
    """Tell whether other weekdays stand apart from those chosen: "Mondays call Bob, Tuesdays call Sue"."""
    if not isinstance(part, Every) or timing.every is None or part.weekdays == timing.every.weekdays:
        return False
    return bool(part.weekdays and timing.every.weekdays)


def _is_alternative(mention: Mention, cluster: list[Mention], sentence: Sentence, language: Language) -> bool:
    """Tell whether "or" stands between this mention and another of its cluster."""
    before = mention.place - 1
    joined = before > 0 and sentence.items[before].word in language.intent.choices
    return joined and any(other.place == before - 1 for other in cluster)


def _refuse(
    cluster: list[Mention], mention: Mention, chosen: Selection, sentence: Sentence, language: Language
) -> None:
    """Leave a cluster that doesn't fit with the task, unless it may be a second request or contradicts itself."""
    strength = max(member.strength for member in cluster)
    first = cluster[0].place
    taken = chosen.places
    joined = first > 0 and sentence.items[first - 1].word in language.intent.joiners
    if joined and first - 2 in chosen.places:
        chosen.timing = replace(chosen.timing, problem=MORE_THAN_ONE)
        return
    leads = bool(taken) and min(taken) < sentence.task
    if not taken or (strength >= PLAIN and (joined or not leads)):
        chosen.timing = replace(chosen.timing, problem=MORE_THAN_ONE)


def _settle_bounds(chosen: Selection, mentions: list[Mention], sentence: Sentence, language: Language) -> None:
    """Make bounds without a recurrence what they mean there: a delay, a moment, or words of the task."""
    timing = chosen.timing
    if timing.every is None and timing.rate is None:
        if timing.lasting is not None and timing.lasting.coming and not timing.after:
            timing = replace(timing, every=Every(unit="day"))
        elif timing.lasting is not None and timing.clocks and timing.day is None and timing.lasting.goes_on_for_days:
            timing = replace(timing, problem=Problem("Once, or every day for so long?"))
        elif timing.starting is not None and not timing.has_moment:
            timing = replace(timing, problem=Problem("How often should it run from then on?"))
    if timing.every is None and timing.rate is None:
        waits = any(item.word in language.intent.waiting for item in sentence.items)
        waits = waits or (language.intent.until_is_by and timing.until is not None)
        is_delay = waits and not timing.has_moment
        timing = _awaited(timing) if is_delay else _without_bounds(timing, chosen, mentions)
    elif _is_length_of_task(timing):
        _give_back(chosen, mentions, Lasting)
        timing = replace(timing, lasting=None)
    chosen.timing = timing


def _is_length_of_task(timing: Timing) -> bool:
    """Tell whether "for 20 minutes" is how long the task takes each time, and no bound of the recurrence."""
    if timing.lasting is None or timing.every is None or timing.lasting.coming:
        return False
    return not is_bound(timing.lasting.duration, timing.every)


def _awaited(timing: Timing) -> Timing:
    """Return "snooze for an hour" and "wait until noon" as the delay or the moment they are."""
    if timing.lasting is not None:
        return replace(timing, after=After(timing.lasting.duration), lasting=None)
    if timing.until is None:
        return timing
    end = timing.until.end
    timing = replace(timing, until=None)
    part: Part = At((end,)) if isinstance(end, Clock) else On(end)  # type: ignore[arg-type]  # no Duration here
    return fill(timing, part) or timing


def _without_bounds(timing: Timing, chosen: Selection, mentions: list[Mention]) -> Timing:
    unused: list[type] = [Lasting, Until, Times, Excluding]
    if timing.starting is not None and isinstance(timing.starting.start, Clock) and not timing.clocks:
        timing = replace(timing, clocks=(timing.starting.start,))
    else:
        unused.append(Starting)
    if timing.window is not None and not timing.clocks and (timing.day is not None or timing.part is not None):
        # "tomorrow from 2 to 3 pm" begins at 2.
        timing = replace(timing, clocks=(timing.window.start,))
    elif timing.window is not None:
        unused.append(Window)
    for kind in unused:
        _give_back(chosen, mentions, kind)
    return replace(timing, lasting=None, until=None, starting=None, times=None, excluding=None, window=None)


def _give_back(chosen: Selection, mentions: list[Mention], kind: type) -> None:
    chosen.places -= {mention.place for mention in mentions if isinstance(mention.part, kind)}


def unread_recurrence(sentence: Sentence, places: set[int], language: Language) -> bool:
    """Tell whether the request speaks of a recurrence that no rule understood: "every full moon"."""
    for place, item in enumerate(sentence.items):
        if place in places or item.word not in language.intent.recurring:
            continue
        near_by = sentence.items[place + 1 : place + 4]
        if place <= sentence.task or any(kind in other.readings for other in near_by for kind in _UNITS):
            return True
    return False
