"""Chinese: what single words and fixed phrases mean."""

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
_WEEK: Final = ("周", "週", "星期", "礼拜", "禮拜")


def _numbers() -> dict[str, object]:
    numbers: dict[str, object] = {"零": 0, "两": 2, "兩": 2, "十": 10}
    for one, digit in enumerate(_DIGITS, start=1):
        numbers[digit] = one
        numbers[f"十{digit}"] = 10 + one
    for ten, digit in enumerate(_DIGITS, start=1):
        numbers[f"{digit}十"] = ten * 10
        for one, small in enumerate(_DIGITS, start=1):
            numbers[f"{digit}十{small}"] = ten * 10 + one
    return numbers


def _weekdays(before: tuple[str, ...] = ("",)) -> dict[str, object]:
    names: dict[str, object] = {}
    for prefix in before:
        for week in _WEEK:
            for n, day in enumerate("一二三四五六"):
                names[f"{prefix}{week}{day}"] = frozenset({n})
            for sunday in "日天":
                names[f"{prefix}{week}{sunday}"] = frozenset({6})
    return names


_UNITS: Final = {
    "second": "秒 秒钟 秒鐘",
    "minute": "分钟 分鐘 分",
    "hour": "小时 小時 个小时 個小時 钟头 鐘頭 个钟头 個鐘頭 个钟 個鐘",
    "day": "天 日",
    "week": "周 週 星期 个星期 個星期 礼拜 個禮拜 个礼拜",
    "month": "个月 個月",
    "year": "年",
}
_WHEN: Final = Vague("具体是什么时候？")
HOW_OFTEN: Final = Problem("具体多久一次？")

VOCABULARY: Final[dict[str, dict[str, object]]] = {
    "number": _numbers(),
    "unit": {word: Unit(name) for name, words in _UNITS.items() for word in words.split()},  # type: ignore[arg-type]  # the keys are unit names
    "weekday": _weekdays(),
    "next_weekday": _weekdays(("下", "下个", "下個")),
    "this_weekday": _weekdays(("这", "這", "本", "这个", "這個")),
    "every_weekday": _weekdays(("每", "每个", "每個", "逢", "每逢")),
    "part": {
        **dict.fromkeys(("早上", "早晨", "清晨", "上午", "早"), MORNING),
        **dict.fromkeys(("中午", "正午"), NOON),
        **dict.fromkeys(("下午", "午后", "午後"), AFTERNOON),
        **dict.fromkeys(("傍晚", "黄昏"), EVENING),
        **dict.fromkeys(("晚上", "夜里", "夜裡", "夜晚", "晚"), NIGHT),
        **dict.fromkeys(("凌晨", "半夜"), DayPart(3, "am")),
    },
    "time": {"午夜": MIDNIGHT, "零点": MIDNIGHT, "零點": MIDNIGHT, "正午十二点": NOON_CLOCK},
    "day": {
        "今天": DayOffset(0),
        "今日": DayOffset(0),
        "明天": DayOffset(1),
        "明日": DayOffset(1),
        "后天": DayOffset(2),
        "後天": DayOffset(2),
        "大后天": DayOffset(3),
        "大後天": DayOffset(3),
        "月底": Period("month", 0, end=True),
        "年底": Period("year", 0, end=True),
        **dict.fromkeys(("下周", "下週", "下星期", "下个星期", "下個星期", "下礼拜"), Period("week", 1)),
        **dict.fromkeys(("下个月", "下個月", "下月"), Period("month", 1)),
        "明年": Period("year", 1),
        **dict.fromkeys(("这周末", "這週末", "周末", "週末", "本周末"), Period("weekend", 0)),
        **dict.fromkeys(("下周末", "下週末"), Period("weekend", 1)),
    },
    "tonight": {
        "今晚": Several((DayOffset(0), NIGHT)),
        "明早": Several((DayOffset(1), MORNING)),
        "明晚": Several((DayOffset(1), NIGHT)),
        "今早": Several((DayOffset(0), MORNING)),
    },
    "every": {
        **dict.fromkeys(("每天", "每日", "天天"), Every(unit="day")),
        **dict.fromkeys(("每周", "每週", "每星期", "每个星期", "每個星期", "每礼拜"), Every(unit="week")),
        **dict.fromkeys(("每月", "每个月", "每個月"), Every(unit="month")),
        "每年": Every(unit="year"),
        **dict.fromkeys(("每小时", "每小時", "每个小时", "每個小時"), Every(unit="hour")),
        **dict.fromkeys(("每分钟", "每分鐘"), Every(unit="minute")),
        **dict.fromkeys(
            ("工作日", "每个工作日", "每個工作日", "平日"), Every(unit="week", weekdays=frozenset(range(5)))
        ),
        **dict.fromkeys(("每周末", "每个周末", "每個週末", "每週末"), Every(unit="week", weekdays=frozenset({5, 6}))),
        "每季度": Every(unit="month", months=frozenset({1, 4, 7, 10})),
        "每早": Every(unit="day", part=MORNING),
        "每晚": Every(unit="day", part=NIGHT),
        "隔天": Every(unit="day", step=2),
        "每隔一天": Every(unit="day", step=2),
        **dict.fromkeys(("每隔一周", "每隔一週", "每隔一个星期"), Every(unit="week", step=2)),
        **dict.fromkeys(("隔周", "隔週"), Every(unit="week", step=2)),
    },
    "hint": hints(mornings="叫醒我 叫我起床 起床 早饭 早餐", evenings="晚饭 晚餐"),
    "zone": {
        f"{city}时间": Zone(name)
        for city, name in {
            "北京": "Asia/Shanghai",
            "上海": "Asia/Shanghai",
            "中国": "Asia/Shanghai",
            "香港": "Asia/Hong_Kong",
            "台北": "Asia/Taipei",
            "东京": "Asia/Tokyo",
            "日本": "Asia/Tokyo",
            "首尔": "Asia/Seoul",
            "新加坡": "Asia/Singapore",
            "伦敦": "Europe/London",
            "英国": "Europe/London",
            "巴黎": "Europe/Paris",
            "柏林": "Europe/Berlin",
            "德国": "Europe/Berlin",
            "莫斯科": "Europe/Moscow",
            "悉尼": "Australia/Sydney",
            "纽约": "America/New_York",
            "美东": "America/New_York",
            "芝加哥": "America/Chicago",
            "洛杉矶": "America/Los_Angeles",
            "旧金山": "America/Los_Angeles",
            "美西": "America/Los_Angeles",
        }.items()
    },
    "rate": dict.fromkeys(("偶尔", "偶爾", "有时候", "不时", "定期"), HOW_OFTEN),
    "vague": dict.fromkeys(
        (
            "以后",
            "以後",
            "改天",
            "待会",
            "待會",
            "待会儿",
            "一会儿",
            "一會兒",
            "晚点",
            "晚點",
            "过会儿",
            "有空",
            "有空的时候",
            *(
                "饭后",
                "飯後",
                "饭前",
                "睡前",
                "起床后",
                "下班后",
                "下班後",
                "上班前",
                "放学后",
                "午饭后",
                "晚饭后",
                "早饭后",
            ),
        ),
        _WHEN,
    ),
    "over": dict.fromkeys(("昨天", "昨日", "前天", "昨晚", "上周", "上週", "上个月", "刚才"), Past()),
}
