"""A small language whose determiners, nouns and verbs agree in number, and whose documents keep to a topic."""

from saccade.data.toy.topics import ACTING, DETERMINERS, RESTING, TOPICS, Topics, generate


def test_the_made_language_agrees_in_number_and_keeps_to_its_topic():
    made = generate(Topics(train=40, valid=3, test=3))
    assert generate(Topics(train=40, valid=3, test=3)) == made
    number = {word: n for pair in (DETERMINERS, *RESTING, *ACTING) for n, word in enumerate(pair)}
    for text in made["train"]:
        nouns = set()
        for sentence in text.split(" ."):
            words = sentence.split()
            if words:
                assert number[words[0]] == number[words[2]] == (words[1].endswith("s"))
                nouns |= {words[1], *words[4:]}
        singular = {noun.removesuffix("s") if not noun.endswith("ies") else f"{noun[:-3]}y" for noun in nouns}
        assert any(singular <= set(topic) for topic in TOPICS)
