"""What a model answers: flat labels of what a request says, in a schema that strict structured output accepts."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

UnitLabel = Literal["second", "minute", "hour", "day", "workday", "week", "month", "quarter", "year"]
WeekdayLabel = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "workday", "weekend"
]
PartLabel = Literal["morning", "afternoon", "evening", "night", "end of day"]

_ONCE: Final = frozenset({"times", "part_of_day", "day"})
_AMOUNT: Final = frozenset({"amount", "unit", "extra_amount", "extra_unit"})
#: Which labels each type has; the task, the question and the zone go with all.
LABELS_OF: Final = {
    "once": _ONCE,
    "delay": _AMOUNT | {"times", "part_of_day"},
    "repeat": _AMOUNT
    | {"times", "part_of_day", "weekdays", "nth", "month_days", "months", "except_weekdays", "minute_of_hour"}
    | {"hours_from", "hours_to", "starting", "until", "for_amount", "for_unit", "count"},
}
#: Fields into which models write "" or "null" instead of null.
_WORDS: Final = (
    *("question", "part_of_day", "day", "unit", "extra_unit", "hours_from", "hours_to"),
    *("starting", "until", "for_unit", "zone_words", "zone"),
)
_COMMON: Final = frozenset({"type", "task", "question", "zone_words", "zone"})


def _strict(schema: dict[str, Any]) -> None:
    """Make the schema one that strict mode accepts: every field required, none besides them, no defaults."""
    schema["additionalProperties"] = False
    schema["required"] = list(schema["properties"])
    for described in schema["properties"].values():
        described.pop("default", None)
        described.pop("title", None)


class ScheduleReply(BaseModel):
    """The labels of one request; what it doesn't say is null or an empty list."""

    # A model that isn't held to the schema leaves out what it doesn't use, so each field has a default here.
    # Errors must not show the answer, which repeats the user's words.
    model_config = ConfigDict(json_schema_extra=_strict, hide_input_in_errors=True)

    type: Literal["once", "delay", "repeat", "none", "question"]
    task: str = Field("", description="What to do, in the request's own words, without the words that say when.")
    question: str | None = Field(None, description="Only with type question: what to ask, in the user's language.")
    times: list[str] = Field([], description="Times of day as said: 9, 9:30, 3pm, 17:00, noon, midnight.")
    part_of_day: PartLabel | None = None
    day: str | None = Field(None, description="With once: the day, in English words or as YYYY-MM-DD.")
    amount: float | None = Field(None, description="With delay or repeat: how many units.")
    unit: UnitLabel | None = None
    extra_amount: float | None = Field(None, description="The 15 of 1 hour and 15 minutes.")
    extra_unit: UnitLabel | None = None
    weekdays: list[WeekdayLabel] = []
    nth: int | None = Field(None, description="Which of the weekdays in the month: 1 to 5, or -1 for the last.")
    month_days: list[int] = Field([], description="Dates of the month, -1 for the last day.")
    months: list[int] = Field([], description="1 to 12.")
    except_weekdays: list[WeekdayLabel] = []
    minute_of_hour: int | None = None
    hours_from: str | None = Field(None, description="A time of day.")
    hours_to: str | None = Field(None, description="A time of day.")
    starting: str | None = Field(None, description="English words or YYYY-MM-DD.")
    until: str | None = Field(None, description="English words or YYYY-MM-DD.")
    for_amount: float | None = None
    for_unit: UnitLabel | None = None
    count: int | None = Field(None, description="Runs in all.")
    zone_words: str | None = Field(None, description="The request's own words that name a zone.")
    zone: str | None = Field(None, description="IANA name of that zone.")

    @field_validator("times", "weekdays", "month_days", "months", "except_weekdays", mode="before")
    @classmethod
    def _nothing_is_an_empty_list(cls, value: Any) -> Any:
        return [] if value is None else value

    @field_validator("task", mode="before")
    @classmethod
    def _nothing_is_no_task(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator(*_WORDS, mode="before")
    @classmethod
    def _blank_is_nothing(cls, value: Any) -> Any:
        return None if isinstance(value, str) and value.strip().lower() in ("", "null", "none") else value

    def stray_labels(self) -> list[str]:
        """Return the labels that are set but don't go with the type."""
        allowed = LABELS_OF.get(self.type)
        if allowed is None:
            return []
        names = [name for name in type(self).model_fields if name not in allowed | _COMMON]
        return [name for name in names if getattr(self, name)]
