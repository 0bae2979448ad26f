"""A page of a shop that learns which item to show: uvicorn shop:app --port 8080."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape

from delayed_bandits import AsyncBandits
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse

ITEMS = ["hat", "scarf", "shoes"]
bandits = AsyncBandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"))
shop = bandits.session("shop")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Have the session before the first visitor comes, and send the last clicks before the end."""
    await bandits.sessions.ensure(
        "shop",
        learner={"kind": "multiscale_tsallis", "arms": ITEMS},
        reward_range=[0, 1],
        expiry={"after_seconds": 1800, "default_reward": 0},
    )
    yield
    await bandits.close()


app = FastAPI(lifespan=lifespan)


@app.get("/", response_class=HTMLResponse)
async def page() -> str:
    """Show an item. Without the service this is the fallback, and nothing is learned from it."""
    action = await shop.act(fallback=ITEMS[0])
    return f'<a href="/click/{escape(str(action.label))}/{action.event_id}">Look at this {action.label}!</a>'


@app.get("/click/{item}/{event_id}")
async def click(item: str, event_id: str) -> RedirectResponse:
    """Report the click, without waiting, and go on to the item; reloading this counts once."""
    shop.report(item, reward=1, event_id=event_id)
    return RedirectResponse(f"/items/{item}")


@app.get("/items/{item}")
async def item_page(item: str) -> dict[str, str]:
    """Stand for the item's own page."""
    return {"item": item}
