"""Where the harness and schedules meet: tools by which a model schedules in plain words.

class Helper(Agent):
def __init__(self, context):
super().__init__(context)
tools = scheduling_tools(self, self.remind)
self.harness = self.lifecycle.use(Harness(model="gpt-5-mini", tools=tools))

async def remind(self, payload: dict, schedule: Schedule):
await self.harness.wake_up(payload["text"], key=schedule.run_id)       # or tell a person
"""

from agentkit.assistant.scheduling_tools import scheduling_tools

__all__ = ["scheduling_tools"]
