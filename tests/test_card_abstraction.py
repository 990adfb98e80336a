"""Card abstractions: canonical boards, expected strengths, buckets and their tables."""

import functools
import itertools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem import canonical_boards, card_abstraction, hand_buckets, hand_strength
from jaxgames.holdem.canonical_boards import HAND_IMAGES, board_finder, find_boards
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables, buckets_of_deal
from jaxgames.holdem.equity import rank_hands, showdown_equity
from jaxgames.holdem.hand_buckets import Buckets, bucket_table
from jaxgames.holdem.k_means import closest_centres, k_means
from jaxgames.holdem.ranges import CLASSES, HANDS, NUM_HANDS, hand_numbers

DEALS = 200


@functools.cache
def deals():
    """Random boards of five cards, in the order of the deal."""
    generator = np.random.default_rng(0)
    return np.stack([generator.permutation(52)[:5] for _ in range(DEALS)]).astype(np.int32)


def test_boards_are_found_with_their_permutations():
    """A permutation turns the first cards of a deal into the canonical board, and a hand beside
    them into one that shares cards with it where it did."""
    finder = board_finder(5)
    number, permutation = jax.vmap(lambda cards: find_boards(finder, cards))(jnp.asarray(deals()))
    permutations = np.array(list(itertools.permutations(range(4))))
    levels = canonical_boards.canonical_boards(5)
    for count in range(6):
        suits = permutations[np.asarray(permutation)[:, count]]
        cards = deals()[:, :count]
        images = cards // 4 * 4 + np.take_along_axis(suits, cards % 4, axis=1)
        found = levels[count].cards[np.asarray(number)[:, count]]
        np.testing.assert_array_equal(np.sort(images, axis=1), np.sort(found, axis=1))
    hands = HAND_IMAGES[np.asarray(permutation)[:, 5]]
    blocked = (HANDS[None, :, :, None] == deals()[:, None, None]).any(axis=(2, 3))
    possible = canonical_boards.possible_hands(5)[np.asarray(number)[:, 5]]
    np.testing.assert_array_equal(~blocked, np.take_along_axis(possible, hands, axis=1))


@pytest.mark.parametrize(
    ("num_cards", "boards", "deals", "hands"),
    [
        (0, 1, 1, 169),
        (3, 1_755, 22_100, 1_286_792),
        pytest.param(4, 16_432, 270_725, 13_960_050, marks=pytest.mark.slow),
        pytest.param(5, 134_459, 2_598_960, 123_156_254, marks=pytest.mark.slow),
    ],
)
def test_numbers_of_boards_and_hands_beside_them(num_cards, boards, deals, hands):
    """Known from the literature (Waugh 2013; Johanson et al. 2013)."""
    possible = canonical_boards.possible_hands(num_cards)
    assert len(possible) == boards
    assert canonical_boards.num_deals(num_cards).sum() == deals
    count = possible.sum()
    for board, images in canonical_boards.board_symmetries(num_cards):
        first = HAND_IMAGES[images].min(axis=0) == np.arange(NUM_HANDS)
        count += (first & possible[board]).sum() - possible[board].sum()
    assert count == hands


@pytest.mark.slow
def test_expected_strengths_before_the_flop():
    """All 169 classes, as another program computed them."""
    file = pathlib.Path(__file__).parent / "data" / "preflop_hs169.txt"
    lines = [line.split() for line in file.read_text().splitlines() if line[0] != "#"]
    known = {name: (float(mean), float(square)) for name, mean, square, *_ in lines}
    classes = np.array(CLASSES)[hand_buckets.class_numbers()]
    expected = np.array([known[name] for name in classes])
    for power in (1, 2):
        found = hand_strength.expected_strength(power, 0)[0]
        np.testing.assert_allclose(found, expected[:, power - 1], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("num_cards", "last", "rows"), [(2, 3, (0, 91)), (4, 5, (1_000, 16_431))])
def test_expected_strengths_on_boards(num_cards, last, rows):
    """Beside all ways to complete some boards, ranked one by one."""
    ranked = jax.jit(lambda board: showdown_equity(rank_hands(board), jnp.ones(NUM_HANDS)))
    for row in rows:
        board = canonical_boards.canonical_boards(5)[num_cards].cards[row]
        rest = [card for card in range(52) if card not in board]
        sums, count = np.zeros((2, NUM_HANDS)), np.zeros(NUM_HANDS)
        for more in itertools.combinations(rest, last - num_cards):
            whole = jnp.asarray([*board, *more], jnp.int32)
            strength = np.asarray(ranked(whole), np.float64)
            here = ~np.isin(HANDS, np.asarray(whole)).any(axis=1)
            sums += [strength * here, strength**2 * here]
            count += here
        for power in (1, 2):
            found = hand_strength.expected_strength(power, num_cards, last)[row]
            np.testing.assert_allclose(found, sums[power - 1] / np.maximum(count, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("text", "num_cards", "last"),
    [
        ("ehs2:50", 0, 3),
        ("ehs2:50", 3, 3),
        ("percentile:5", 0, 3),
        ("percentile:40", 3, 3),
        ("nested:3x5", 0, 3),
        pytest.param("kmeans:10", 0, 3, marks=pytest.mark.slow),
        ("kmeans:10", 3, 3),
        pytest.param("ochs:20", 3, 3, marks=pytest.mark.slow),
        *(
            pytest.param(*case, 5, marks=pytest.mark.slow)
            for case in (
                ("ehs2:50", 3),
                ("percentile:5", 0),
                ("percentile:40", 4),
                ("percentile:20", 5),
                ("nested:6x5", 3),
                ("kmeans:20", 3),
                ("kmeans:20", 4),
                ("kmeans:10", 5),
                ("ochs:20", 5),
            )
        ),
    ],
)
def test_tables(text, num_cards, last):
    """Buckets are all used but for grids, do not depend on the names of suits, and percentiles
    share the deals out evenly."""
    buckets, possible = Buckets.parse(text), canonical_boards.possible_hands(num_cards)
    table = bucket_table(buckets, num_cards, last)
    assert table.shape == possible.shape == (canonical_boards.NUM_BOARDS[num_cards], NUM_HANDS)
    assert table.dtype == buckets.dtype
    assert table.max() < buckets.number
    assert not table[~possible].any()
    for board, images in itertools.islice(canonical_boards.board_symmetries(num_cards), 300):
        for image in images:
            np.testing.assert_array_equal(table[board], table[board][HAND_IMAGES[image]])
    deals = np.broadcast_to(canonical_boards.num_deals(num_cards)[:, None], table.shape)
    mass = np.bincount(table[possible], weights=deals[possible], minlength=buckets.number)
    if buckets.kind != "ehs2":
        assert mass.all()
    if buckets.kind == "percentile":
        np.testing.assert_allclose(mass / mass.sum(), 1 / buckets.number, atol=0.01)
    if num_cards < last:  # the best and the worst hand on a board are in different buckets
        strength = hand_strength.expected_strength(2, num_cards, last)
        best = np.where(possible, strength, -1).argmax(axis=1)
        worst = np.where(possible, strength, 2).argmin(axis=1)
        rows = np.arange(len(table))
        assert (table[rows, best] != table[rows, worst]).mean() > 0.99


def test_grid_buckets_are_those_of_the_formula(monkeypatch):
    """floor(E[HS^2] n), the paper's equidistant grid, with n itself put into the last bucket."""
    total = hand_strength.most_points(3) ** 2 * hand_strength.num_completions(0, 3)
    sums = np.linspace(0, total, NUM_HANDS).astype(np.int64)[None]
    monkeypatch.setattr(hand_buckets, "strength_sums", lambda power, num_cards, last: sums)
    table = bucket_table(Buckets.parse("ehs2:10"), 0, 3)[0]
    np.testing.assert_array_equal(table, np.minimum(sums[0] * 10 // total, 9))
    assert (np.bincount(table) > 130).all()


def test_k_means_finds_what_is_apart():
    generator = np.random.default_rng(0)
    middles = np.array([[0, 0], [10, 0], [0, 10], [10, 10.0]])
    points = np.concatenate([m + generator.normal(size=(50, 2)) for m in middles])
    points = jnp.asarray(points, jnp.float32)
    centres = k_means(jax.random.key(0), points, jnp.ones(200), count=4)
    closest = np.asarray(closest_centres(points, centres)).reshape(4, 50)
    assert (closest == closest[:, :1]).all()
    assert len(np.unique(closest)) == 4
    for row, middle in enumerate(middles):
        assert np.abs(np.asarray(centres)[closest[row, 0]] - middle).max() < 0.6


def test_weights_of_k_means_are_as_many_points():
    points = jnp.asarray([[0.0], [1.0], [5.0]])
    centres = k_means(jax.random.key(0), points, jnp.asarray([3.0, 1.0, 2.0]), count=2)
    np.testing.assert_allclose(centres, [[0.25], [5.0]], atol=1e-6)


@pytest.fixture
def made(monkeypatch):
    """Tables with random entries, and which of them were made."""
    made = []

    def random_table(buckets, num_cards, last):
        made.append((str(buckets), num_cards, last))
        boards = len(canonical_boards.canonical_boards(max(num_cards, 1))[num_cards].cards)
        table = np.random.default_rng(num_cards).integers(buckets.number, size=(boards, NUM_HANDS))
        for board, images in canonical_boards.board_symmetries(num_cards):
            table[board] = table[board][HAND_IMAGES[images].min(axis=0)]
        return table.astype(np.uint16)

    monkeypatch.setattr(card_abstraction, "bucket_table", random_table)
    return made


def test_tables_are_kept_and_made_again_if_damaged(made, tmp_path):
    with pytest.raises(ValueError, match=r"streets=\(\): there must be one or more"):
        CardAbstraction(())
    abstraction, board = CardAbstraction.parse("169/ehs2:50"), (0, 3)
    told = []
    first = bucket_tables(abstraction, board=board, folder=tmp_path, report=told.append)
    assert made == [("classes:169", 0, 3), ("ehs2:50", 3, 3)]
    again = bucket_tables(abstraction, board=board, folder=tmp_path, report=told.append)
    assert len(made) == 2
    names = "classes:169 for boards of 0 cards", "ehs2:50 for boards of 3 cards"
    assert told == [f"{what} buckets {name}" for what in ("making", "reading") for name in names]
    for one, other in zip(first.tables, again.tables, strict=True):
        np.testing.assert_array_equal(one, other)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    content = bytearray(files[1].read_bytes())
    content[len(content) // 2] ^= 1
    files[1].write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged .* and is made again"):
        mended = bucket_tables(abstraction, board=board, folder=tmp_path)
    assert len(made) == 3
    np.testing.assert_array_equal(mended.tables[1], first.tables[1])


@pytest.mark.parametrize("recall", ["", ", perfect recall"])
def test_buckets_of_a_deal_do_not_depend_on_suits(made, tmp_path, recall):
    abstraction = CardAbstraction.parse("percentile:5/ehs2:7" + recall)
    tables = bucket_tables(abstraction, board=(0, 3), folder=tmp_path)
    find = jax.jit(jax.vmap(lambda board: buckets_of_deal(tables, board)))
    boards = deals()[:, :3]
    buckets = np.asarray(find(jnp.asarray(boards)))
    suits = np.array([2, 0, 3, 1])
    turned = np.asarray(find(jnp.asarray(boards // 4 * 4 + suits[boards % 4])))
    images = HANDS // 4 * 4 + suits[HANDS % 4]
    image = hand_numbers(images)
    possible = ~(HANDS[None, :, :, None] == boards[:, None, None]).any(axis=(2, 3))
    for street in range(2):
        same = buckets[:, street] == turned[:, street, image]
        assert same[possible].all()
    if recall:
        assert abstraction.num_buckets == (5, 35)
        np.testing.assert_array_equal(buckets[:, 1] // 7, buckets[:, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ehs2", "must be KIND:NUMBER"),
        ("emd:200", r"unknown kind of buckets 'emd' \(known: all, classes, ehs2, "),
        ("nested:20", r"nested takes 2 number\(s\)"),
        ("kmeans:0", "of at least 1"),
        ("ehs2:70000", "at most 65,536"),
    ],
)
def test_bad_buckets(text, message):
    with pytest.raises(ValueError, match=message):
        Buckets.parse(text)


def test_strengths_are_taken_on_the_board_that_is_asked_for(made, tmp_path):
    abstraction = CardAbstraction.parse("169/percentile:8")
    for cards in (None, 4, 5, 4):
        bucket_tables(abstraction, board=(0, 3), strength_cards=cards, folder=tmp_path)
    assert [last for _, num_cards, last in made if num_cards == 3] == [3, 4, 5]
    with pytest.raises(ValueError, match="strength_cards=2 must be from the game's 3 to 5"):
        bucket_tables(abstraction, board=(0, 3), strength_cards=2, folder=tmp_path)


@pytest.mark.parametrize("text", ["percentile:170", "ehs2:1000", "nested:15x12", "kmeans:200"])
def test_more_buckets_than_hands_are_refused(text, made, tmp_path):
    """Before any table is made."""
    message = f"buckets {text}: there are only 169 different hands before the flop"
    with pytest.raises(ValueError, match=message):
        bucket_tables(CardAbstraction.parse(f"{text}/all:1"), board=(0, 3), folder=tmp_path)
    assert not made


@pytest.mark.parametrize("kind", ["percentile", "kmeans"])
def test_more_buckets_than_strengths_are_refused(kind):
    strengths = hand_strength.last_points(3)[canonical_boards.possible_hands(3)]
    most = len(np.unique(strengths))
    message = f"buckets {kind}:{most + 1}: hands have only {most:,} different strengths on boards"
    with pytest.raises(ValueError, match=message):
        bucket_table(Buckets(kind, (most + 1,)), 3, 3)
    if kind == "percentile":
        assert bucket_table(Buckets(kind, (most,)), 3, 3).max() < most


def test_memory_of_tables():
    """One byte up to 256 buckets, two from there: 226 MB in the paper's grid."""
    abstraction = CardAbstraction.parse("169/ehs2:1000/ehs2:257/ehs2:256")
    expected = 1326 * (1 + 2 * 1_755 + 2 * 16_432 + 134_459)
    assert card_abstraction.table_bytes(abstraction) == expected


def test_bad_abstractions(tmp_path):
    with pytest.raises(ValueError, match=r"has 1 streets; the game has 2, with board=\(0, 3\)"):
        bucket_tables(CardAbstraction.parse("169"), board=(0, 3), folder=tmp_path)
    with pytest.raises(ValueError, match="8,450,000 sequences of buckets; at most 65,536"):
        CardAbstraction.parse("169/ehs2:1000/ehs2:50, perfect recall")
    with pytest.raises(ValueError, match="classes:169 must be 169, before the flop"):
        bucket_table(Buckets.parse("169"), 3)
    with pytest.raises(ValueError, match="all:2 must be 1: all hands are in it"):
        bucket_table(Buckets.parse("all:2"), 3)
    with pytest.raises(ValueError, match="ochs:8 are for the last street; on earlier ones: kmeans"):
        bucket_table(Buckets.parse("ochs:8"), 3)
