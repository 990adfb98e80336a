"""A small engine for tests: speaks UCI or GTP, and misbehaves as it is told.

`python fake_engine.py uci|gtp BEHAVIOUR [WORD]`: at its first move it dies, hangs, writes garbage,
chatters without end, or answers WORD. A GTP engine that answers `pass` plays legal games.
"""

import os
import sys
import time

protocol, behaviour, *words = sys.argv[1:]


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def move(before, after):
    if behaviour == "dies":
        os._exit(3)
    if behaviour == "hangs":
        time.sleep(60)
    if behaviour == "chatters":
        while True:
            say("info string hello\n" if protocol == "uci" else "=")
            time.sleep(1e-3)
    if behaviour == "writes a long line":
        say("x" * 100_000)
        time.sleep(60)
    say(f"{before}{words[0] if words else ''}{after}")


for line in sys.stdin:
    first = line.split()[0]
    if first == "quit":
        break
    if behaviour == "is silent":
        continue
    if protocol == "gtp":
        if behaviour == "writes garbage":
            say("hello there\n")
        elif first == "genmove":
            move("= ", "\n\n")
        else:
            say("? no\n\n" if first == behaviour else "= false\n\n")
    elif first == "uci":
        say("id name fake\noption name Seed type spin default 0 min 0 max 9\nuciok\n")
    elif first == "isready":
        say("readyok\n")
    elif first == "go":
        move("info nodes 1\nbestmove ", "\n")
