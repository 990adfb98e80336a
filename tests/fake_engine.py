"""A small engine for tests: speaks UCI or GTP, and misbehaves as it is told.

`python fake_engine.py uci|gtp BEHAVIOUR [WORD]`: at its first move it dies, hangs, writes garbage,
chatters without end, or answers WORD. A GTP engine that answers `pass` plays legal games; one that
`scores` passes, too, and its final score is WORD; one whose behaviour is a command refuses that. A
UCI engine that `writes down` what it is sent does so in the file WORD, and answers a move of chess.
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
    if behaviour == "writes down":
        with open(words[0], "a") as file:
            file.write(line)
    if first == "quit":
        break
    if behaviour == "is silent":
        continue
    if protocol == "gtp":
        if behaviour == "writes garbage":
            say("hello there\n")
        elif behaviour == "scores" and first in ("genmove", "known_command", "final_score"):
            answers = {"genmove": "pass", "known_command": "true", "final_score": words[0]}
            say(f"= {answers[first]}\n\n")
        elif first == "genmove":
            move("= ", "\n\n")
        else:
            say("? no\n\n" if first == behaviour else "= false\n\n")
    elif first == "uci":
        say("id name fake\noption name Seed type spin default 0 min 0 max 9\n")
        say("option name UCI_Elo type spin default 1350 min 1350 max 2850\nuciok\n")
    elif first == "isready":
        say("readyok\n")
    elif first == "go" and behaviour == "writes down":
        say("bestmove e2e4\n")
    elif first == "go":
        move("info nodes 1\nbestmove ", "\n")
