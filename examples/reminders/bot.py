"""The reminder bot of the README, run: ``python -m examples.reminders.bot``; Ctrl+C ends it."""

import asyncio

from pydantic import BaseModel

from agentkit import Agent, AgentOptions, Runtime, Schedule, callable_method


class Reminder(BaseModel):
    text: str


class ReminderBot(Agent):
    options = AgentOptions(timezone="Europe/Berlin")

    @callable_method
    async def remind(self, request: str) -> str:
        plan = await self.parse_schedule(request)
        if plan.question:
            return plan.question
        schedule = await self.schedule(plan, self.send_reminder, Reminder(text=plan.description))
        return schedule.describe()

    async def send_reminder(self, payload: Reminder, schedule: Schedule) -> None:
        print(f"{self.name}, remember: {payload.text}", flush=True)


async def main(store: str = "sqlite:///bots.db") -> None:
    async with Runtime(ReminderBot, store=store) as runtime:
        bot = runtime.get(ReminderBot, "alice")
        print(await bot.remind("in 5 seconds tell me to stretch"))
        print(await bot.remind("every Monday at 9 send the report"))
        print(await bot.remind("remind me to call Bob"))
        await runtime.run()


if __name__ == "__main__":
    asyncio.run(main())
