"""Japanese: what single words and fixed phrases mean."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser.languages.shared import (
    AFTERNOON,
    EVENING,
    MIDNIGHT,
    MORNING,
    NIGHT,
    NOON,
    NOON_CLOCK,
    hints,
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
    Zone,
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
WHEN: Final = Vague("具体的にいつですか？")
HOW_OFTEN: Final = Problem("どのくらいの頻度ですか？")

_MEALS: Final = ("食後", "食前", "寝る前", "仕事の後", "昼食後", "夕食後", "朝食後", "帰宅後", "起床後")

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
    "hint": hints(mornings="起こして 起きる 朝食 朝ごはん", evenings="夕食 晩ごはん"),
    "zone": {
        f"{city}時間": Zone(name)
        for city, name in {
            "日本": "Asia/Tokyo",
            "東京": "Asia/Tokyo",
            "北京": "Asia/Shanghai",
            "中国": "Asia/Shanghai",
            "香港": "Asia/Hong_Kong",
            "台北": "Asia/Taipei",
            "ソウル": "Asia/Seoul",
            "韓国": "Asia/Seoul",
            "シンガポール": "Asia/Singapore",
            "ロンドン": "Europe/London",
            "パリ": "Europe/Paris",
            "ベルリン": "Europe/Berlin",
            "モスクワ": "Europe/Moscow",
            "シドニー": "Australia/Sydney",
            "ニューヨーク": "America/New_York",
            "シカゴ": "America/Chicago",
            "ロサンゼルス": "America/Los_Angeles",
        }.items()
    },
    "span_unit": {
        "日間": Unit("day"),
        "週間": Unit("week"),
        "年間": Unit("year"),
        "か月間": Unit("month"),
        "ヶ月間": Unit("month"),
    },
    "rate": dict.fromkeys(("時々", "ときどき", "たまに", "定期的に"), HOW_OFTEN),
    "vague": dict.fromkeys(("いつか", "後で", "あとで", "そのうち", "近いうちに", "今度", *_MEALS), WHEN),
    "over": dict.fromkeys(("昨日", "きのう", "一昨日", "おととい", "先週", "先月", "昨夜"), Past()),
}
