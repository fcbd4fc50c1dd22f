"""Orkas through its public surface."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from orkas import Agent, Session, tool


class Client:
    def __init__(self, base_url: str, bump: Callable[..., Awaitable[str]], store: str | None) -> None:
        self.base_url = base_url
        self.bump = tool(bump)
        if store:
            os.environ["ORKAS_HOME"] = store

    async def turn(self, prompt: str, session: str | None, on_text: Callable[[str], None]) -> None:
        stored = {"session": Session.open(session)} if session else {}
        agent = Agent(
            model="custom/gpt-4o",
            base_url=self.base_url,
            api_key="k",
            tools=[self.bump],
            max_rounds=500,
            context_window=10_000_000,  # a long history is to be sent, not summarised
            **stored,
        )
        done = None
        try:
            async for event in agent.stream(prompt):
                if event.type == "text_delta":
                    on_text(event.text)
                elif event.type == "done":
                    done = event
        finally:
            await agent.aclose()
        if done is None or done.outcome != "completed":
            raise RuntimeError(f"the turn failed: {done and done.error}")

    async def seed(self, session: str, pairs: list[tuple[str, str]]) -> None:
        from orkas.infra.messages import AssistantMessage, Text, user_message

        history = Session.open(session)
        for question, answer in pairs:
            reply = AssistantMessage([Text(text=answer)], "custom/gpt-4o", "openai_chat", "stop")
            history.append(user_message(question), reply)
        history.close()

    async def close(self) -> None:
        pass
