"""A page of a shop that learns which item to show: uvicorn shop:app --port 8080."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape

from delayed_bandits import AsyncBandits
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

ITEMS = ["hat", "scarf", "shoes"]
SERVICE = os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000")
bandits = AsyncBandits(SERVICE)
shop = bandits.session("shop")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Have the session before the first visitor comes."""
    await bandits.sessions.ensure(
        "shop",
        learner={"kind": "multiscale_tsallis", "arms": ITEMS},
        reward_range=[0, 1],
        expiry={"after_seconds": 1800, "default_reward": 0},
        tokens=True,
        control={"share": 0.3},
    )
    yield
    await bandits.close()


app = FastAPI(lifespan=lifespan)


@app.get("/", response_class=HTMLResponse)
async def page() -> str:
    """Show an item, whose click the browser reports. Without the service this is the fallback, without a token."""
    action = await shop.act(fallback=ITEMS[0])
    item, token = escape(str(action.label)), action.token or ""
    link = f'<a href="/items/{item}" data-bandit-token="{token}">Look at this {item}!</a>'
    return f'<script src="{SERVICE}/v1/clicks.js"></script>{link}'


@app.get("/items/{item}")
async def item_page(item: str) -> dict[str, str]:
    """Stand for the item's own page."""
    return {"item": item}
