"""Japanese: words, grammar and intent. Text has no spaces; the longest known phrase is read."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.shared import (
    AFTERNOON,
    EVENING,
    MIDNIGHT,
    MORNING,
    NIGHT,
    NOON,
    NOON_CLOCK,
    both,
    one_day,
)
from agentkit.schedules.parser.meanings import (
    DayOffset,
    DayPart,
    Every,
    Past,
    Period,
    Problem,
    Several,
    Unit,
    Vague,
)

_DIGITS: Final = "一二三四五六七八九"


def _numbers() -> dict[str, object]:
    numbers: dict[str, object] = {"零": 0, "十": 10}
    for one, digit in enumerate(_DIGITS, start=1):
        numbers[digit] = one
        numbers[f"十{digit}"] = 10 + one
    for ten, digit in enumerate(_DIGITS[1:], start=2):
        numbers[f"{digit}十"] = ten * 10
        for one, small in enumerate(_DIGITS, start=1):
            numbers[f"{digit}十{small}"] = ten * 10 + one
    return numbers


def _weekdays(prefix: str = "") -> dict[str, object]:
    names: dict[str, object] = {}
    for n, day in enumerate("月火水木金土日"):
        for ending in ("曜日", "曜"):
            names[f"{prefix}{day}{ending}"] = frozenset({n})
    return names


_UNITS: Final = {
    "second": "秒 秒間",
    "minute": "分 分間",
    "hour": "時間",
    "day": "日 日間",
    "week": "週間 週",
    "month": "か月 ヶ月 ヵ月 カ月 ケ月 箇月",
    "year": "年 年間",
}
_WHEN: Final = Vague("具体的にいつですか？")
_HOW_OFTEN: Final = Problem("どのくらいの頻度ですか？")

VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "number": _numbers(),
    "unit": {word: Unit(name) for name, words in _UNITS.items() for word in words.split()},  # type: ignore[arg-type]  # the keys are unit names
    "weekday": _weekdays(),
    "short": {day: frozenset({n}) for n, day in enumerate("月火水木金土日")},
    "next_weekday": {**_weekdays("来週の"), **_weekdays("来週")},
    "this_weekday": {**_weekdays("今週の"), **_weekdays("今週"), **_weekdays("今度の")},
    "every_weekday": {**_weekdays("毎週の"), **_weekdays("毎週"), **_weekdays("毎")},
    "other_weekday": {**_weekdays("隔週の"), **_weekdays("隔週")},
    "part": {
        **dict.fromkeys(("朝", "午前", "午前中", "早朝"), MORNING),
        **dict.fromkeys(("昼", "お昼", "昼間"), NOON),
        **dict.fromkeys(("午後",), AFTERNOON),
        **dict.fromkeys(("夕方",), EVENING),
        **dict.fromkeys(("夜", "晩"), NIGHT),
        **dict.fromkeys(("深夜", "未明", "夜中"), DayPart(1, "am")),
    },
    "time": {"正午": NOON_CLOCK, "真夜中": MIDNIGHT, "零時": MIDNIGHT},
    "day": {
        **dict.fromkeys(("今日", "きょう", "本日"), DayOffset(0)),
        **dict.fromkeys(("明日", "あした", "あす", "翌日"), DayOffset(1)),
        **dict.fromkeys(("明後日", "あさって"), DayOffset(2)),
        **dict.fromkeys(("しあさって",), DayOffset(3)),
        "来週": Period("week", 1),
        "来月": Period("month", 1),
        "来年": Period("year", 1),
        "月末": Period("month", 0, end=True),
        "今月末": Period("month", 0, end=True),
        "週末": Period("weekend", 0),
        "今週末": Period("weekend", 0),
        "来週末": Period("weekend", 1),
    },
    "tonight": {
        "今夜": Several((DayOffset(0), NIGHT)),
        "今晩": Several((DayOffset(0), NIGHT)),
        "今朝": Several((DayOffset(0), MORNING)),
        "明朝": Several((DayOffset(1), MORNING)),
        "明晩": Several((DayOffset(1), NIGHT)),
    },
    "every": {
        "毎日": Every(unit="day"),
        "毎朝": Every(unit="day", part=MORNING),
        "毎晩": Every(unit="day", part=NIGHT),
        "毎夕": Every(unit="day", part=EVENING),
        "毎週": Every(unit="week"),
        "毎月": Every(unit="month"),
        "毎年": Every(unit="year"),
        "毎時": Every(unit="hour"),
        "毎時間": Every(unit="hour"),
        "毎分": Every(unit="minute"),
        "平日": Every(unit="week", weekdays=frozenset(range(5))),
        "毎平日": Every(unit="week", weekdays=frozenset(range(5))),
        "毎週末": Every(unit="week", weekdays=frozenset({5, 6})),
        "隔週": Every(unit="week", step=2),
        "隔日": Every(unit="day", step=2),
        "一日おき": Every(unit="day", step=2),
    },
    "rate": dict.fromkeys(("時々", "ときどき", "たまに", "定期的に"), _HOW_OFTEN),
    "vague": dict.fromkeys(("いつか", "後で", "あとで", "そのうち", "近いうちに", "今度"), _WHEN),
    "over": dict.fromkeys(("昨日", "きのう", "一昨日", "おととい", "先週", "先月", "昨夜"), Past()),
}

NUMBERS: Final[tuple[Rule, ...]] = ()
AMOUNTS: Final[tuple[Rule, ...]] = (
    ("day", "<number> 月 <number> 日", lambda month, day: days.month_day(month, day) if 0 < month < 13 else None),
    (
        "day",
        "<year> 年 <number> 月 <number> 日",
        lambda year, month, day: days.month_day(month, day, year) if 0 < month < 13 else None,
    ),
    ("day", "来月 の? <number> 日", days.day_of_next_month),
    ("day", "今月 の? <number> 日", days.day_of_this_month),
    ("every", "毎月 の? <number> 日", lambda day: recurrences.month_days(days.single(day))),
    (
        "every",
        "毎年 の? <number> 月 <number> 日",
        lambda month, day: recurrences.every_date(days.month_day(month, day) if 0 < month < 13 else None),
    ),
    ("said", "<number> 日 に|の", lambda day: phrases.on(days.day_of_month(day))),
    ("time", "<number> 時", amounts.as_clock),
    ("time", "<number> 時 半", amounts.half_past),
    ("time", "<number> 時 <number> 分", lambda hour, minute: amounts.minutes_past(minute, hour)),
    ("time", "<number> 時 <number> 分 前", lambda hour, minutes: amounts.minutes_to(minutes, hour)),
    ("time", "<part> の? <time>", amounts.with_part_first),
    ("duration", "<number> <unit>", amounts.duration),
    ("duration", "<number> 時間 半", lambda n: amounts.and_a_half(amounts.duration(n, Unit("hour")))),
    ("duration", "半 日", lambda: amounts.duration(12, Unit("hour"))),
    ("duration", "<duration> と? <duration>", amounts.together),
)
DAYS: Final[tuple[Rule, ...]] = (
    ("day", "<next_weekday>", days.next_weekday),
    ("day", "<this_weekday>", days.this_weekday),
    ("weekdaylist", "<weekday> から <weekday> まで?", days.weekday_range),
    ("weekdaylist", "<weekday|weekdaylist> と|、|,|・ <weekday>", days.union),
    ("weekdaylist", "<every_weekday> と|、|,|・ <weekday|weekdaylist>", days.union),
    ("weekdaylist", "<short> ・? <short|weekday|weekdaylist>", days.union),
    ("every", "毎週 の? <weekdaylist|short>", recurrences.every_weekday),
    ("every", "<every_weekday>", recurrences.every_weekday),
    ("every", "<other_weekday>", recurrences.every_other_weekday),
    ("every", "<duration> ごと|毎|おき に?", recurrences.every_duration),
    ("every", "<duration> に 一回|1回", recurrences.every_duration),
    ("every", "毎月 の? 最終日|末日|月末", recurrences.last_month_day),
    ("every", "毎月 の? 第 <number> <weekday>", recurrences.nth_weekday_monthly),
    ("every", "第 <number> <weekday>", recurrences.nth_weekday_monthly),
    ("said", "<duration> 後|のち|したら に?", phrases.after),
    ("over", "<duration> 前", lambda _: Past()),
    ("count", "<number> 回", phrases.count_of),
)
PARTS: Final[tuple[Rule, ...]] = (
    ("times", "<time|times> と|、|, <time|times>", amounts.at_more),
    ("said", "<time> に|頃|ごろ|頃に|ちょうど?", amounts.at_one),
    ("said", "<times> に?", lambda times: times),
    ("said", "<day> の? <part> に?", lambda day, part: both(day, part)),
    ("said", "<weekday> の? <part> に?", lambda day, part: both(one_day(day), part)),
    ("said", "<tonight>", lambda several: several),
    ("said", "<day|weekday> の|に|は?", phrases.on),
    ("said", "<day|weekday|time> まで に?", phrases.until),
    ("said", "<day|weekday> から", phrases.starting),
    ("said", "<time> から <time> まで? の? 間?", amounts.window),
    ("said", "<part> に", lambda part: part),
    ("said", ", <duration>", phrases.lasting),
    ("said", "<count>", lambda count: count),
    ("said", "<weekday|weekdaylist> 以外|を除いて|を除く", phrases.excluding),
    ("said", "<said> の|に|,|は", lambda said: said),
    ("every", "<every> の|に|,|は", lambda every: every),
    ("every", "<weekdaylist> の|に|は?", recurrences.every_weekday),
    ("every", "<every> の? <part> に?", recurrences.every_in_part),
)

INTENT: Final = Intent(
    asking=(
        "リマインダー|アラーム|タイマー を? セット|設定 して?",
        "リマインド して",
        "リマインダー|アラーム|タイマー",
    ),
    courtesies=("お願い|すみません|ねえ|こんにちは|おはよう", ",|:|-|–|—|!|.|…|¶|、"),
    closings=(
        (
            "と|って|を|ように|のを|ことを? 思い出させて|リマインドして|リマインド|"
            "知らせて|教えて|通知して ください|下さい|ほしい|くれ?"
        ),
        "を? 忘れないように|忘れずに して? ください|言って?",
        "を? セット|設定 して? ください|下さい?",
        "ください|下さい|お願いします|お願い|ね|よ",
        ",|:|-|–|—|!|.|…|?|¶|、",
    ),
    keeping=("起こして",),
    links=frozenset({"に", "、", ",", ":"}),
    questions=("何|誰|どこ|なぜ|どうして|いつ|何時|何曜日|どう|どの|いくら|なに",),
    statements=("私|僕|俺|彼|彼女|彼ら|私たち|おやすみ|おやすみなさい|ありがとう|お誕生日おめでとう",),
    past=frozenset({"ました", "でした", "だった", "した", "った", "ですか", "ますか", "かな"}),
    past_closings=frozenset({"た", "ました", "でした", "だった", "した", "った"}),
    management=(),
    managed=frozenset({"リマインダー", "アラーム", "タイマー", "予定"}),
    joiners=frozenset({"と", "そして", ",", ";", ".", "¶"}),
    waiting=frozenset({"タイマー", "アラーム"}),
    conditions=frozenset({"もし"}),
    bounds=frozenset({"まで", "以外", "を除いて"}),
    recurring=frozenset({"毎", "ごと", "おき"}),
    fillers=frozenset({",", "の", "に", "、", "は", "と"}),
)


@cache
def japanese() -> Language:
    """Return Japanese, compiled at its first use."""
    return make_language("ja", VOCABULARY, (AMOUNTS, DAYS, PARTS), INTENT, spaced=False)
