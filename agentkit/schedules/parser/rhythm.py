"""The fields of cron rules: weekdays, and rhythms within the hours of a day."""

from __future__ import annotations

from dataclasses import replace

from agentkit.schedules.parser.meanings import Clock, Every, Problem, Window
from agentkit.schedules.parser.once import settled


def week_field(weekdays: frozenset[int]) -> str:
    """Return cron's day-of-week field, where Sunday is 0; all or none of the days are ``*``.

    >>> week_field(frozenset({0, 1, 2, 3, 4})), week_field(frozenset({5, 6}))
    ('1-5', '0,6')
    """
    if len(weekdays) in (0, 7):
        return "*"
    numbers = sorted((weekday + 1) % 7 for weekday in weekdays)
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(str(number) for number in numbers)


def day_fields(every: Every) -> str:
    """Return the fields for day, month and weekday of a recurrence whose months all have the same days."""
    numbers = sorted(every.month_days - {-1})
    days = _numbers(numbers) if len(numbers) > 4 else ",".join(str(number) for number in numbers)
    if -1 in every.month_days:
        days = f"{days},L" if days else "L"
    months = ",".join(str(month) for month in sorted(every.months))
    week = week_field(every.weekdays)
    if every.nth:
        week = ",".join(_nth_field(nth, weekday) for nth, weekday in sorted(every.nth))
    if every.workday == -1:
        days = "LW"
    return f"{days or '*'} {months or '*'} {week}"


def _nth_field(nth: int, weekday: int) -> str:
    number = (weekday + 1) % 7
    return f"{number}L" if nth == -1 else f"{number}#{nth}"


def day_rules(every: Every) -> list[str]:
    """Return the fields for day, month and weekday, a line for every set of days if the months differ in theirs."""
    if not every.dates:
        return [day_fields(every)]
    months_of: dict[int, frozenset[int]] = {}
    for month, day in every.dates:
        months_of[day] = months_of.get(day, frozenset()) | {month}
    days_of: dict[frozenset[int], frozenset[int]] = {}
    for day, months in months_of.items():
        days_of[months] = days_of.get(months, frozenset()) | {day}
    return sorted(day_fields(replace(every, months=months, month_days=days)) for months, days in days_of.items())


def _ends(window: Window) -> tuple[int, int] | Problem:
    """Return a window's ends in minutes of the day."""
    start, end = window.start, window.end
    if not start.exact and not end.exact and end.hour > start.hour:
        first, last = start, end
    else:
        first, last = settled(start, None, has_date=True), settled(end, None, has_date=True)
        if not start.exact and first.hour > 12 and last.hour * 60 < first.hour * 60:
            first = Clock(start.hour, start.minute, exact=True)
    begin, finish = first.hour * 60 + first.minute, last.hour * 60 + last.minute
    if begin >= finish:
        return Problem("From when until when each day should it run?")
    return begin, finish


def hours_field(step: int, minute: int | None, window: Window | None) -> list[str] | Problem:
    """Return the minute and hour fields of "every two hours", between the window's hours if there is one."""
    if window is None:
        return [f"{minute or 0} {'*' if step == 1 else f'*/{step}'}"]
    ends = _ends(window)
    if isinstance(ends, Problem):
        return ends
    begin, finish = ends
    mark = begin % 60 if minute is None else minute
    times = [time for time in range(begin - begin % 60 + mark, finish + 1, step * 60) if time >= begin]
    if not times:
        return Problem("At which times should it run?")
    return _grouped(times)


def minute_rules(step: int, window: Window) -> list[str] | Problem:
    """Return the minute and hour fields of "every 15 minutes between 9 and 17"."""
    ends = _ends(window)
    if isinstance(ends, Problem):
        return ends
    begin, finish = ends
    if begin % 60 == 0 and finish % 60 == 0 and 60 % step == 0:
        first, last = begin // 60, finish // 60 - 1
        minutes = "*" if step == 1 else f"*/{step}"
        return [f"{minutes} {first if first == last else f'{first}-{last}'}"]
    return _grouped(list(range(begin, finish + 1, step)))


def _grouped(times: list[int]) -> list[str]:
    """Return the rules that run at these minutes of the day, and at no others."""
    hours_of: dict[int, list[int]] = {}
    for time in times:
        hours_of.setdefault(time % 60, []).append(time // 60 % 24)
    minutes_of: dict[str, list[int]] = {}
    for minute, hours in hours_of.items():
        minutes_of.setdefault(_numbers(sorted(set(hours))), []).append(minute)
    return [f"{','.join(str(minute) for minute in minutes)} {hours}" for hours, minutes in minutes_of.items()]


def _numbers(numbers: list[int]) -> str:
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if numbers == list(range(numbers[0], numbers[-1] + 1, step)):
            return f"{numbers[0]}-{numbers[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(str(number) for number in numbers)
