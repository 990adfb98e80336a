"""Parser of Gambit's extensive-form files (.efg).

Source: Gambit's documentation, "The extensive game (.efg) file format", and Gambit's own reader. A
file lists the nodes of the tree in prefix order; white space has no meaning outside of quotes. The
parser is strict: it refuses what the documentation calls an error, with the line and what was
expected.
"""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import NO_PARENT, TreeTooLargeError

_TOKEN = re.compile(r'\s+|(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[{},])|(?P<word>[^\s{},"]+)', re.S)
_DIGITS = r"\d{1,300}"  # bounded, so that no short file asks for gigabytes of digits
_NUMBER = re.compile(
    rf"[+-]?({_DIGITS}/{_DIGITS}|({_DIGITS}(\.\d{{0,300}})?|\.{_DIGITS})([eE][+-]?\d{{1,3}})?)"
)


@dataclasses.dataclass
class EfgNode:
    """A node of the tree, as the file describes it."""

    parent: int  # index of the parent in the list of nodes
    action: int  # index of the parent's branch that leads here
    depth: int
    payoffs: tuple[Fraction, ...]  # [P] sum of the outcomes on the way, with this node's
    actor: int
    information_set: int = 0
    actions: tuple[str, ...] = ()
    probabilities: tuple[Fraction, ...] = ()  # of the actions, at chance nodes


class EfgParser:
    """Reads tokens from front to back; `self.place` is the next one."""

    def __init__(self, text, name, max_nodes):
        self.name, self.max_nodes, self.place = name, max_nodes, 0
        self.tokens = []  # (kind, value, line)
        self.sets = {}  # (actor, number) -> name, actions, probabilities
        self.outcomes = {}  # number -> name, payoffs
        self._tokenize(text)

    def header(self):
        """Reads the title and the names of the players."""
        for word in ("EFG", "2"):
            if self.take("word", f"{word!r} (a file begins with: EFG 2 R)") != word:
                self.fail(f"expected {word!r} (a file begins with: EFG 2 R)", back=1)
        if self.take("word", "'R'") not in ("R", "D"):
            self.fail("expected 'R'", back=1)
        title = self.take("text", "the title of the game in quotes")
        self.mark("{", "the list of players")
        players = [self.take("text", "the name of a player in quotes")]
        while not self.at("mark", "}"):
            players.append(self.take("text", "the name of a player in quotes or '}'"))
        self.place += 1
        if self.at("text"):  # an optional comment
            self.place += 1
        return title, tuple(players)

    def body(self, num_players):
        """Reads all nodes, in prefix order."""
        nodes = []
        pending = [(NO_PARENT, -1, 0, (Fraction(0),) * num_players)]
        while pending:
            node = self.node(*pending.pop())
            nodes.append(node)
            if len(nodes) > self.max_nodes:
                raise TreeTooLargeError(
                    f"{self.name}: more than the limit of {self.max_nodes:,} nodes"
                    " (argument max_histories)"
                )
            place = len(nodes) - 1
            for action in reversed(range(len(node.actions))):
                pending.append((place, action, node.depth + 1, node.payoffs))
        if self.tokens[self.place][0] != "end":
            self.fail("expected the end of the file: the tree is complete")
        return nodes

    def node(self, parent, action, depth, payoffs):
        """Reads one node."""
        kind = self.take("word", "a node: c, p or t")
        if kind not in ("c", "p", "t"):
            self.fail("expected a node: c, p or t", back=1)
        self.take("text", "the name of the node in quotes")
        node = EfgNode(parent, action, depth, payoffs, actor=TERMINAL)
        if kind != "t":
            node.actor = CHANCE
            if kind == "p":
                node.actor = self.integer("the number of a player", 1, len(payoffs)) - 1
            node.information_set = self.integer("the number of an information set", 1)
            key = (node.actor, node.information_set)
            node.actions, node.probabilities = self.information_set(key)
        outcome = self.outcome(len(payoffs))
        node.payoffs = tuple(a + b for a, b in zip(payoffs, outcome, strict=True))
        return node

    def information_set(self, key):
        """Reads the actions and, for chance, the probabilities of an information set.

        A file gives them where the set first appears.
        """
        chance = key[0] == CHANCE
        what = f"information set {key[1]} of {'chance' if chance else f'player {key[0] + 1}'}"
        if not self.at("text"):
            if key not in self.sets:
                self.fail(f"expected the name and actions of {what}, not defined before")
            return self.sets[key][1:]
        first = self.place
        name = self.take("text", "a name")
        self.mark("{", f"the actions of {what}")
        actions, probabilities = [], []
        while not (actions and self.at("mark", "}")):
            actions.append(self.take("text", "the name of an action in quotes"))
            if chance:
                probabilities.append(self.number("the probability of the action", least=0))
        self.place += 1
        if chance and not abs(sum(probabilities) - 1) < 1e-6:
            total = float(sum(probabilities))
            self.fail(f"expected probabilities with sum 1, not {total}", back=self.place - first)
        self.define(self.sets, key, (name, tuple(actions), tuple(probabilities)), what, first)
        return self.sets[key][1:]

    def outcome(self, num_players):
        """Reads the payoffs of a node's own outcome; a file gives them where the outcome first
        appears.
        """
        number = self.integer("the number of an outcome", 0)
        what = f"outcome {number}"
        if not self.at("text"):
            if number and number not in self.outcomes:
                self.fail(f"expected the name and payoffs of {what}, not defined before")
            return self.outcomes[number][1] if number else (Fraction(0),) * num_players
        if number == 0:
            self.fail("expected no name: outcome 0 has no name and no payoffs")
        first = self.place
        name = self.take("text", "a name")
        self.mark("{", f"the payoffs of {what}")
        payoffs = []
        for player in range(num_players):
            if player and self.at("mark", ","):
                self.place += 1
            payoffs.append(self.number(f"the payoff of player {player + 1}"))
        self.mark("}", f"the end of the {num_players} payoffs of {what}")
        self.define(self.outcomes, number, (name, tuple(payoffs)), what, first)
        return self.outcomes[number][1]

    def define(self, table, key, value, what, first):
        """Records a definition; a repeated one must be equal."""
        if table.setdefault(key, value) != value:
            self.fail(f"expected {what} as it was defined before", back=self.place - first)

    def at(self, kind, value=None):
        """Whether the next token is of this kind (and value)."""
        token = self.tokens[self.place]
        return token[0] == kind and value in (None, token[1])

    def take(self, kind, expected):
        """Reads a token of this kind."""
        if not self.at(kind):
            self.fail(f"expected {expected}")
        self.place += 1
        return self.tokens[self.place - 1][1]

    def mark(self, value, expected):
        """Reads a bracket or comma."""
        if not self.at("mark", value):
            self.fail(f"expected {value!r}, {expected}")
        self.place += 1

    def number(self, expected, least=None):
        """Reads a number, exactly."""
        word = self.take("word", expected)
        try:
            value = Fraction(word) if _NUMBER.fullmatch(word) else None
            if value is None or not (least is None or value >= least):
                self.fail(f"expected {expected}", back=1)
            float(value)
        except (ZeroDivisionError, OverflowError):
            self.fail(f"expected {expected}, a finite number", back=1)
        return value

    def integer(self, expected, least, most=None):
        """Reads an integer in a range."""
        word = self.take("word", expected)
        if not re.fullmatch(r"\d{1,9}", word) or not least <= int(word) <= (most or int(word)):
            allowed = f"from {least} to {most}" if most else f"at least {least}"
            self.fail(f"expected {expected}, {allowed}", back=1)
        return int(word)

    def fail(self, message, back=0):
        """Raises the error for the token at `place - back`."""
        kind, value, line = self.tokens[self.place - back]
        label = " ".join(value.split())[:60]  # a message is one line
        actual = {"end": "the end of the file", "text": f'"{label}"'}.get(kind, f"'{label}'")
        raise ValueError(f"{self.name}, line {line}: {message}; found {actual}")

    def _tokenize(self, text):
        """Splits the text into tokens."""
        place, line = 0, 1
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:  # only a quote that nothing closes matches nothing
                raise ValueError(f"{self.name}, line {line}: expected a closing quote")
            if match.lastgroup:
                value = match.group()
                if match.lastgroup == "text":
                    value = re.sub(r'\\(["\\])', r"\1", value[1:-1])
                self.tokens.append((match.lastgroup, value, line))
            line += match.group().count("\n")
            place = match.end()
        self.tokens.append(("end", "", line))
