import sys, asyncio
from playwright.sync_api import sync_playwright
F=("--no-sandbox","--disable-gpu","--no-first-run","--disable-background-networking","--disable-component-update","--disable-sync")
def open_(p, url, w=1280,h=800, dark=False, tour=False):
    c=p.new_context(viewport={"width":w,"height":h}, color_scheme="dark" if dark else "light")
    pg=c.new_page(); pg.on("console", lambda m: print("CONSOLE",m.type,m.text) if m.type in("error","warning") else None)
    pg.on("pageerror", lambda e: print("PAGEERR",e))
    pg.goto(url); pg.wait_for_timeout(900)
    return pg
