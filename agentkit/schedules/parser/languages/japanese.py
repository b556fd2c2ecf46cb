"""Japanese: words, grammar and intent. Text has no spaces; the longest known phrase is read."""

from __future__ import annotations

from functools import cache
from typing import Final

from agentkit.schedules.parser import amounts, days, monthly, phrases, recurrences
from agentkit.schedules.parser.grammar import Rule
from agentkit.schedules.parser.language import Intent, Language, make_language
from agentkit.schedules.parser.languages.japanese_words import HOW_OFTEN, VOCABULARY
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

NUMBERS: Final[tuple[Rule, ...]] = (
    ("time", "<number> 時", amounts.as_clock),
    ("time", "<number> 時 半", amounts.half_past),
    ("time", "<number> 時 <number> 分", lambda hour, minute: amounts.minutes_past(minute, hour)),
    ("time", "<number> 時 <number> 分 前", lambda hour, minutes: amounts.minutes_to(minutes, hour)),
    ("monthdays", "<number> 日 と|、|,|・ <number> 日", days.union),
    ("monthdays", "<number> 日 と|、|,|・ <monthdays>", days.union),
)
AMOUNTS: Final[tuple[Rule, ...]] = (
    ("day", "<number> 月 <number> 日", lambda month, day: days.month_day(month, day) if 0 < month < 13 else None),
    (
        "day",
        "<year> 年 <number> 月 <number> 日",
        lambda year, month, day: days.month_day(month, day, year) if 0 < month < 13 else None,
    ),
    ("day", "来月 の? <number> 日", days.day_of_next_month),
    ("day", "今月 の? <number> 日", days.day_of_this_month),
    ("every", "毎月 の? <number> 日", lambda day: monthly.month_days(days.single(day))),
    (
        "every",
        "毎年 の? <number> 月 <number> 日",
        lambda month, day: recurrences.every_date(days.month_day(month, day) if 0 < month < 13 else None),
    ),
    (
        "said",
        "<number> 日 <time> に?",
        lambda day, time: both(phrases.on(days.day_of_month(day)), amounts.at_one(time)),
    ),
    ("duration", "半 年", lambda: amounts.half(Unit("year"))),
    ("said", "<number> 日 に|の", lambda day: phrases.on(days.day_of_month(day))),
    ("time", "<part> の? <time>", amounts.with_part_first),
    ("duration", "<number> <unit>", amounts.duration),
    ("span", "<number> <span_unit>", amounts.duration),
    ("duration", "数 <unit>", lambda _: Problem("具体的にいつですか？")),
    ("every", "毎月 の? <monthdays>", monthly.month_days),
    ("every", "四半期 ごと|毎 に?", lambda: Every(unit="month", months=frozenset({1, 4, 7, 10}))),
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
    ("every", "<duration> ごと|毎 に?", recurrences.every_duration),
    ("every", "<duration> おき に?", lambda length: recurrences.every_between(length) or HOW_OFTEN),
    ("every", "<duration> に 一回|1回", recurrences.every_duration),
    ("every", "毎月 の? 最終日|末日|月末", monthly.last_month_day),
    ("every", "毎月 の? 最終|最後の <weekday>", monthly.last_weekday_monthly),
    ("every", "毎月 の? 最終 営業日|平日", monthly.last_workday_monthly),
    ("every", "毎月 の? 第 <number> <weekday>", monthly.nth_weekday_monthly),
    ("every", "第 <number> <weekday>", monthly.nth_weekday_monthly),
    ("said", "<duration> 後|のち|したら に?", phrases.after),
    ("over", "<duration> 前", lambda _: Past()),
    ("count", "<number> 回", phrases.count_of),
    ("every", "<every> に? <count>", lambda every, times: recurrences.rate_of(times.count, every)),
    ("every", "1|一 日 に? <count>", lambda times: recurrences.rate_of(times.count, Every(unit="day"))),
    ("every", "<duration> に? <count>", lambda length, times: recurrences.times_per_length(times, length)),
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
    ("said", "<span> に|は|、|,?", phrases.lasting),
    ("said", "<count>", lambda count: count),
    ("said", "<weekday|weekdaylist> 以外|を除いて|を除く", phrases.excluding),
    ("said", "<monthdays> の|に?", monthly.month_days),
    ("zone", "<zone> で|の|に", lambda zone: zone),
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
    pleading=word_set("リマインド リマインドして 思い出させて 知らせて 通知して"),
    managing=word_set("削除 削除して キャンセル キャンセルして 取り消して 消して 止めて 停止 変更して 一覧 見せて"),
    questions=("何|誰|どこ|なぜ|どうして|いつ|何時|何曜日|どう|どの|いくら|なに",),
    statements=("私|僕|俺|彼|彼女|彼ら|私たち|おやすみ|おやすみなさい|ありがとう|お誕生日おめでとう",),
    past=frozenset({"ました", "でした", "だった", "した", "った", "ですか", "ますか", "かな"}),
    past_closings=frozenset({"た", "ました", "でした", "だった", "した", "った"}),
    management=(),
    managed=frozenset({"リマインダー", "アラーム", "タイマー", "予定"}),
    after_managed=frozenset({"を", "は", "の", "全部", "すべて"}),
    joiners=frozenset({"と", "そして", ",", ";", ".", "¶"}),
    waiting=frozenset({"タイマー", "アラーム"}),
    conditions=frozenset({"もし"}),
    until_is_by=True,
    bounds=frozenset({"まで", "以外", "を除いて"}),
    recurring=frozenset({"毎", "ごと", "おき"}),
    fillers=frozenset({",", "の", "に", "、", "は", "と"}),
)


@cache
def japanese() -> Language:
    """Return Japanese, compiled at its first use."""
    return make_language("ja", VOCABULARY, (NUMBERS, AMOUNTS, DAYS, PARTS), INTENT, spaced=False)
