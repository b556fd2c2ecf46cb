"""Chinese, in both scripts: words, grammar and intent. Text has no spaces; the longest known phrase is read."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, monthly, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.chinese_words import VOCABULARY
from agentkit.schedules.parser.languages.shared import (
    both,
    one_day,
)
from agentkit.schedules.parser.meanings import (
    Every,
    Past,
    Problem,
    Unit,
)
from agentkit.schedules.parser.word_lists import word_set

_LATER: Final = "后|後|之后|之後|以后|以後"

NUMBERS: Final[tuple[Rule, ...]] = (
    ("monthdays", "<number> 号|號|日 和|、|,|与|跟 <number> 号|號|日", days.union),
    ("monthdays", "<number> 号|號|日 和|、|,|与|跟 <monthdays>", days.union),
    ("number", "<number> 个|個 半", lambda n: n + 0.5),
    ("number", "负 <number>", lambda n: -abs(n)),
)
AMOUNTS: Final[tuple[Rule, ...]] = (
    ("day", "<number> 月 <number> 日|号|號", lambda month, day: days.month_day(month, day) if 0 < month < 13 else None),
    (
        "day",
        "<year> 年 <number> 月 <number> 日|号|號",
        lambda year, month, day: days.month_day(month, day, year) if 0 < month < 13 else None,
    ),
    ("day", "<number> 号|號", days.day_of_month),
    ("day", "下个|下個|下 月 <number> 号|號|日", days.day_of_next_month),
    ("day", "下个月|下個月 <number> 号|號|日", days.day_of_next_month),
    ("every", "每月|每个月|每個月 <number> 号|號|日", lambda day: monthly.month_days(days.single(day))),
    (
        "every",
        "每年 <number> 月 <number> 日|号|號",
        lambda month, day: recurrences.every_date(days.month_day(month, day) if 0 < month < 13 else None),
    ),
    ("time", "<number> 点|點|时|時 钟|鐘|整?", amounts.as_clock),
    ("time", "<number> 点|點|时|時 半", amounts.half_past),
    ("time", "<number> 点|點|时|時 一刻", amounts.quarter_past),
    ("time", "<number> 点|點|时|時 三刻", lambda hour: amounts.minutes_past(45, hour)),
    ("time", "<number> 点|點|时|時 <number> 分?", lambda hour, minute: amounts.minutes_past(minute, hour)),
    ("time", "<number> 点|點|时|時 零 <number> 分?", lambda hour, minute: amounts.minutes_past(minute, hour)),
    ("every", "每月|每个月|每個月 <monthdays>", monthly.month_days),
    ("duration", "几|幾 <unit>", lambda _: Problem("具体是什么时候？")),
    ("time", "差 <number> 分 <number> 点|點", amounts.minutes_to),
    (
        "time",
        "<part> <time|number>",
        lambda part, time: amounts.with_part_first(part, time) if not isinstance(time, int | float) else None,
    ),
    ("duration", "<number> <unit>", amounts.duration),
    ("duration", "<number> <unit> 半", lambda n, unit: amounts.and_a_half(amounts.duration(n, unit))),
    ("duration", "半 <unit>", amounts.half),
    ("duration", "半 个|個 <unit>", amounts.half),
    ("duration", "一刻钟|一刻鐘", lambda: amounts.duration(15, Unit("minute"))),
    ("duration", "<duration> 零? <duration>", amounts.together),
)
DAYS: Final[tuple[Rule, ...]] = (
    ("day", "<next_weekday>", days.next_weekday),
    ("day", "<this_weekday>", days.this_weekday),
    ("weekdaylist", "<weekday> 到|至|- <weekday>", days.weekday_range),
    ("weekdaylist", "<weekday|weekdaylist> 和|、|,|跟|与 <weekday>", days.union),
    ("weekdaylist", "<every_weekday> 和|、|,|跟|与 <weekday|weekdaylist>", days.union),
    ("weekdaylist", "<every_weekday|weekdaylist> <weekday>", days.union),
    ("weekdaylist", "<every_weekday|weekdaylist> 、? <number>", days.weekday_number_too),
    ("weekdaylist", "<every_weekday> 到|至|- <weekday>", days.weekday_range),
    ("every", "<every_weekday>", recurrences.every_weekday),
    ("every", "每 <duration> 一次?", recurrences.every_duration),
    ("every", "每隔 <duration> 一次?", recurrences.every_duration),
    ("every", "每个|每個 <unit>", recurrences.every_unit),
    ("every", "每月|每个月|每個月 最后|最後 一天", monthly.last_month_day),
    ("every", "每月|每个月|每個月 的? 最后|最後 一? 个|個? <weekday>", monthly.last_weekday_monthly),
    ("every", "每月|每个月|每個月 的? 最后|最後 一? 个|個? 工作日", monthly.last_workday_monthly),
    ("every", "每月|每个月|每個月 第 <number> 个|個 <weekday>", monthly.nth_weekday_monthly),
    (
        "every",
        "每两周|每兩週|每两个星期|每兩個星期 <weekday>?",
        lambda day: Every(unit="week", step=2, weekdays=day or frozenset()),
    ),
    ("said", f"<duration> {_LATER}", phrases.after),
    ("said", f"过|過|再过|再過 <duration> {_LATER}?", phrases.after),
    ("over", "<duration> 前|之前|以前", lambda _: Past()),
    ("count", "<number> 次", phrases.count_of),
    ("every", "<every> <count>", lambda every, times: recurrences.rate_of(times.count, every)),
    ("every", "<every> <number> 次", lambda every, count: recurrences.rate_of(count, every)),
)
PARTS: Final[tuple[Rule, ...]] = (
    ("times", "<time|times> 和|、|,|跟 <time|times>", amounts.at_more),
    ("said", "在|于|於|到? <time>", amounts.at_one),
    ("said", "<times>", lambda times: times),
    ("said", "<day> <part>", lambda day, part: both(day, part)),
    ("said", "<weekday> <part>", lambda day, part: both(one_day(day), part)),
    ("said", "<tonight>", lambda several: several),
    ("said", "<day> 的|在?", phrases.on),
    ("said", "在|于 <day|weekday>", phrases.on),
    ("said", "在|于? <monthdays>", monthly.month_days),
    ("said", "从|從|自 <day|weekday> 开始|開始|起", phrases.starting),
    ("said", "<day|weekday> 开始|開始|起", phrases.starting),
    ("said", "直到|到|至 <day|weekday|time> 为止|為止?", phrases.until),
    ("said", "从|從? <time> 到|至|- <time>", amounts.window),
    ("said", "持续|持續|连续|連續 <duration>", phrases.lasting),
    ("said", "共|一共|总共? <count>", lambda count: count),
    ("said", "除了|除 <weekday|weekdaylist> 外|以外|之外?", phrases.excluding),
    ("said", "<said> 的|时|時|,", lambda said: said),
    ("every", "在? <every> 的", lambda every: every),
    ("every", "<every> <part>", recurrences.every_in_part),
)

INTENT: Final = Intent(
    asking=(
        (
            "提醒我|提醒一下|提醒|叫我|通知我|告诉我|告訴我|记得提醒我|記得提醒我|"
            "请提醒我|請提醒我|帮我提醒|幫我提醒 一下|去|要?"
        ),
        "记得|記得|别忘了|別忘了|别让我忘了|不要忘记|不要忘記|记住|記住 要|去?",
        "设|設|设置|設置|设定|設定|定|创建|新建|加 一? 个|個? 闹钟|鬧鐘|提醒|计时器|計時器|定时器",
        "提醒",
    ),
    wishing=("我要|我想|我得|我需要|需要|帮我|幫我|麻烦|麻煩|可以|能不能|能否 你?",),
    courtesies=("请|請|麻烦|麻煩|你好|您好|嘿|喂|好的|帮我|幫我|那|然后|然後", ",|:|-|–|—|!|.|…|¶"),
    closings=("谢谢|謝謝|吧|啊|哦|喔|一下|好吗|好嗎|吗|嗎|提醒我", ",|:|-|–|—|!|.|…|?|¶"),
    keeping=("叫醒我|叫我起床|喊我",),
    links=frozenset({"去", "要", "来", "來", ",", ":", "的"}),
    questions=(
        "什么|什麼|谁|誰|哪|哪里|哪裡|为什么|為什麼|怎么|怎麼|怎样|几点|"
        "幾點|多少|现在几点|現在幾點|是不是|有没有|有沒有",
        "你 会|會|能|是|知道|喜欢",
        "告诉我|告訴我 什么|什麼|为什么|怎么",
        "讲|講|写|寫|翻译|翻譯|解释|解釋 一? 个|個|首|下",
    ),
    statements=(
        "我|他|她|它|我们|我們|他们|他們|她们|大家|谢谢|謝謝|生日快乐|生日快樂|晚安|早安|明天见|明天見|再见|再見",
    ),
    past=frozenset({"了", "过", "過"}),
    management=("取消|删除|刪除|查看|列出|显示|顯示|暂停|暫停|修改|更改|停止|关闭|關閉|删掉|刪掉",),
    managed=word_set("提醒 闹钟 鬧鐘 日程 行程 计时器 計時器 任务 任務"),
    instructions=("忽略|无视|無視 所有|之前|以上|你|全部",),
    joiners=frozenset({"和", "然后", "然後", ",", ";", ".", "¶"}),
    waiting=word_set("计时器 計時器 定时器 倒计时 闹钟"),
    conditions=word_set("当 當 如果 等"),
    bounds=word_set("直到 除了"),
    recurring=frozenset({"每", "每隔", "每个", "每個"}),
    fillers=frozenset({",", "的", "在", "、", "和", "于"}),
)


@cache
def chinese() -> Language:
    """Return Chinese, compiled at its first use."""
    return make_language("zh", VOCABULARY, (NUMBERS, AMOUNTS, DAYS, PARTS), INTENT, spaced=False)
