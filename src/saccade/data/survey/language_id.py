"""A guess at the language of a text: by its script where that tells, else by the short words every sentence needs.

An honest guess of some two dozen languages, for "is this the side I think it is?", not a language identifier. A word
counts for each language that uses it, and less the more of them do:

    score(language) = (1 / words) · Σ over words w the language uses, 1 / (languages that use w)

A guess needs a score of at least LEAST and CLEARLY times the next one's; otherwise it is "unsure", and says between
which. Danish and Norwegian share most of these words, so a short text of either stays unsure.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice

LEAST = 0.06  # running text scores 0.2 to 0.4, lists of names nearly nothing
CLEARLY = 1.5
FEWEST_WORDS, FEWEST_HITS = 3, 1.5  # below, chance decides: "dia" alone is no Indonesian
BREAKS = re.compile(r"[\s\d'’`´.,;:!?¡¿\"«»„“”‘()\[\]{}<>…·•*/\\|_=+&%#@—–-]+")

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew",
    "hi": "Hindi", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "ko": "Korean", "nb": "Norwegian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

BY_SCRIPT = {
    "Greek": "el", "Hebrew": "he", "Hangul": "ko", "Thai": "th", "Georgian": "ka", "Armenian": "hy", "Tamil": "ta",
    "Telugu": "te", "Bengali": "bn", "Hiragana": "ja", "Katakana": "ja", "Han": "zh",
}  # fmt: skip

SHORT_WORDS = {
    "en": "the of and to in is it that was for on are with as his they at be this have from or had by not but what all "
    "were we when your can said there an which she do their if will each about how up out them then he you i my me "
    "would like him has her some could than did who been its now people into did don isn where",
    "pt": "o a de que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das tem à seu sua "
    "ou ser quando muito há nos já está eu também só pelo pela até isso ela entre era depois sem mesmo aos ter seus "
    "quem nas me esse eles estão você tinha foram essa num nem suas meu às minha têm numa pelos elas são",
    "es": "el la de que y a en un ser se no haber por con su para como estar tener le lo todo pero más hacer o poder este "
    "ir otro ese si me ya ver porque dar cuando él muy sin vez mucho saber qué sobre mi alguno mismo yo también hasta "
    "los las una del al es está son fue hay esta ella nos te usted tú has ha era",
    "fr": "le la les de des du un une et à il elle en est que qui ne pas pour dans ce cette ces sur se plus par avec je "
    "tu nous vous ils on son sa ses au aux mais ou où si leur comme tout être avoir été fait y était sont mon ma mes "
    "moi lui même très bien sans j l d c n s qu a",
    "de": "der die das und in den von zu mit sich auf für ist im dem nicht ein eine als auch es an werden aus er hat dass "
    "sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch "
    "man ich du wir ihr mich mir was wenn kann sein eines",
    "it": "il la di e che a un in non è per una sono con si da come lo ha le del della al anche più ma i nel se gli alla "
    "questo ci dei mi ho delle ti cosa molto io suo tu essere era loro perché quando chi lui lei dal nella o sua tutti "
    "questa stato fatto dalla l d un c uno",
    "nl": "de het een van en in is dat op te zijn met voor niet die er maar om hij ik ze aan je ook als dan of bij naar "
    "uit nog wel wat door over tot kan wordt heeft deze ben was worden had heb zo we geen mijn hun u dit moet mij zou "
    "veel meer",
    "sv": "och att det i en som på är av för den med till inte om ett han men var jag sig från vi så kan när hon de har "
    "eller ut vara hade skulle nu efter mot där blev du vid man under sin honom mycket ska över här vad dem oss detta "
    "också någon mig dig",
    "da": "og at det i en som på er af for den med til ikke om et han men var jeg sig fra vi så kan når hun de har eller "
    "ud være havde skulle nu efter mod hvor blev du ved man under sin ham meget skal over her hvad dem os dette også "
    "nogen mig dig hvis fordi nogle af",
    "nb": "og at det i en som på er av for den med til ikke om et han men var jeg seg fra vi så kan når hun de har eller "
    "ut være hadde skulle nå etter mot hvor ble du ved man under sin ham mye skal over her hva dem oss dette også "
    "noen meg deg hvis fordi noe av bare mer",
    "pl": "i w na z do nie się to że jest o jak za po co tak ale od przez dla tym czy już tylko być był jego ja ty on "
    "ona są mnie mi ten ta te tego może można gdy lub oraz tej ich jej było bardzo jestem który która które ma",
    "cs": "a v se na že je to s z do o i za ve k po ale jako jsem jsou by byl bylo ten ta tak při od pro už jen jeho "
    "které který která co když si mi není jste být má mu ji než nebo před také však bych nás vás",
    "ro": "și de în a la cu nu este o un care pe din că ce să se mai pentru au sau ca el ea dar sunt am fost după fi lui "
    "prin cum când ai îi te mă unei unui într acest această al ale lor fără foarte până este era",
    "fi": "ja on ei se että hän oli en ovat mutta kun niin myös tai joka ole sen mitä minä sinä me te he kuin jos vain "
    "nyt minun hänen olen olet ollut mukaan sitä tämä tämän siitä voi ne koska vielä hyvin mikä missä",
    "hu": "a az és hogy nem is egy ez meg csak van de ha volt mint el ki már még azt be én te ő mi ti ők olyan vagy kell "
    "lesz nagyon most itt ott mert amely aki ezt vagyok minden után között voltak nincs",
    "tr": "ve bir bu da de için ile çok ne daha gibi en o var mi mı ama olarak olan her sonra kadar ben sen biz siz onlar "
    "değil yok ya ki şey oldu olduğu ise bana beni sana hiç kendi benim veya göre iki mu",
    "ca": "el la de que i a en un es no per amb una els les del al com més però ha si són va ser aquest aquesta molt també "
    "o hi ho jo ell ella quan perquè seva seu dels tot on ja em et ens li està era més què meva l d s n",
    "id": "yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya ke karena tersebut bisa ada mereka lebih "
    "sudah atau saat oleh sebagai adalah kamu dia kita kami apa telah orang bahwa seperti hanya",
    "vi": "là và của có không được cho trong một người này với các những đã tôi khi đó ở để nhiều cũng như về từ anh thì "
    "đến ra vào sẽ rất nhưng bạn nó họ chúng ông",
    "ru": "и в не на я что он с как это по но они к у ты из мы за вы так же от то о бы все его для она был меня мне если "
    "быть было есть когда уже до или только её их нет вот тебя очень был может том этот",
    "uk": "і в не на я що він з як це по але вони до у ти із ми за ви так же від то про би все його для вона був мене мені "
    "якщо бути було є коли вже або тільки її їх немає та й тебе дуже може цей який",
    "bg": "и в не на аз че той с като това по но те към у ти от ние за вие така да се са е си до ли ще му го ми ме за беше "
    "има ако когато вече или само нея няма много може този който",
    "ar": "في من على إلى أن لا ما هذا هذه هو هي كان عن مع كل ذلك التي الذي لم قد أنا أنت نحن بعد قبل ثم أو إن لقد يا كانت "
    "بين حتى هناك إذا ليس و",
    "fa": "در به از که این را با است برای آن یک خود تا بر هم نیز می ها شده بود من تو او ما شما اما یا اگر هر چه باید دارد "
    "کرد شد نیست و هستند بودند",
    "hi": "है के में की को से का और यह पर नहीं हैं ने भी एक कि वह हो तो था थे थी मैं इस जो कर मुझे आप हम क्या लिए गया",
}


@dataclass(frozen=True)
class Guess:
    """A language by its code, None where the guess is unsure; `near` are the best candidates, best first."""

    language: str | None
    score: float = 0.0
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.language is not None:
            return NAMES[self.language]
        return "unsure" + (f": {' or '.join(NAMES[code] for code in self.near)}?" if self.near else "")


def short_words(language: str) -> frozenset[str]:
    """The short words that speak for a language; none where its script speaks for it."""
    return frozenset(SHORT_WORDS.get(language, "").split())


def words_of(text: str) -> list[str]:
    """A text's words in lower case, without marks and digits: "l'eau" is two."""
    return [word for word in BREAKS.split(text.lower()) if word]


def guess(texts: Iterable[str]) -> Guess:
    """The language that some texts have in common."""
    characters: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
        words.update(words_of(text))
    shares = script_shares(characters)
    script = next(iter(shares), None)
    if script is None:
        return Guess(None)
    if shares.get("Hiragana", 0) + shares.get("Katakana", 0) > 0.1:  # a zh text has no kana, a ja text always some
        return Guess("ja", 1.0)
    if script in BY_SCRIPT:
        return Guess(BY_SCRIPT[script], shares[script])
    return _by_words({word: count for word, count in words.items() if script_of(word[0]) == script})


def _by_words(words: Mapping[str, int]) -> Guess:
    total = sum(words.values())
    if total < FEWEST_WORDS:
        return Guess(None)
    scores = dict.fromkeys(SHORT_WORDS, 0.0)
    for word, count in words.items():
        for language in _SPEAKS_FOR.get(word, ()):
            scores[language] += count / len(_SPEAKS_FOR[word]) / total
    ranked = sorted(scores.items(), key=lambda item: -item[1])[:3]
    if ranked[0][1] < LEAST / 2:
        return Guess(None)
    best, score = ranked[0]
    close = tuple(language for language, other in ranked if other * CLEARLY > score)
    sure = len(close) == 1 and score >= LEAST and score * total >= FEWEST_HITS
    return Guess(best, score) if sure else Guess(None, score, close)


def _speaks_for() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for language in SHORT_WORDS:
        for word in sorted(short_words(language)):
            found.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in found.items()}


_SPEAKS_FOR = _speaks_for()


def line_shares(texts: Iterable[str], most: int = 3) -> dict[str, float]:
    """The languages of the single lines as shares of the lines a guess was sure of; the commonest first."""
    counts = Counter(code for text in texts if (code := guess([text]).language) is not None)
    return {code: count / counts.total() for code, count in islice(counts.most_common(), most)}


# ----------------------------------------------------------------------------------------------------
# Which writing system a text is in: Latin, Cyrillic, Arabic, Han …, by the names that Unicode gives its letters.
#
# A letter's Unicode name begins with its script ("CYRILLIC SMALL LETTER A"), so no table of ranges is needed. Digits,
# marks and blanks belong to no script. A corpus is judged by its counted characters, each looked up once.

USUAL = 0.05  # a script with this share of a side's letters belongs there
ALIASES = {"Cjk": "Han", "Ideographic": "Han", "Katakana-Hiragana": "Katakana"}  # names that do not begin with it
NOTHING = r"(?!)"
FAMILIES = (frozenset({"Han", "Hiragana", "Katakana"}), frozenset({"Hangul", "Han"}))  # written side by side
WITHOUT_SPACES = frozenset({"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})


@cache
def script_of(character: str) -> str | None:
    """The script of a letter, None for everything else.

    >>> script_of("a"), script_of("я"), script_of("字"), script_of("7")
    ('Latin', 'Cyrillic', 'Han', None)
    """
    if not character.isalpha():
        return None
    # By the letter it stands for: a full-width, raised or mathematical one is still Latin.
    name = unicodedata.name(unicodedata.normalize("NFKC", character)[0], "")
    first = name.split()[0].title() if name else ""
    return None if first in ("", "Modifier") else ALIASES.get(first, first)


def script_shares(characters: Mapping[str, int]) -> dict[str, float]:
    """The share of each script among the letters, largest first; empty where there is no letter."""
    counts: dict[str, int] = {}
    for character, count in characters.items():
        script = script_of(character)
        if script is not None:
            counts[script] = counts.get(script, 0) + count
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {script: count / total for script, count in ordered}


def usual_scripts(shares: Mapping[str, float]) -> frozenset[str]:
    """The scripts a side is written in; what Japanese or Korean writes side by side comes together."""
    return _with_family(frozenset(script for script, share in shares.items() if share >= USUAL))


def main_scripts(shares: Mapping[str, float]) -> frozenset[str]:
    """The script most letters are in, with those written beside it; none where there are no letters."""
    return _with_family(frozenset(list(shares)[:1]))


def _with_family(scripts: frozenset[str]) -> frozenset[str]:
    return scripts.union(*(family for family in FAMILIES if scripts & (family - {"Han"})))


def letters_of(scripts: frozenset[str], characters: Iterable[str]) -> re.Pattern[str]:
    """A pattern for one letter of these scripts, made of the characters that occur; it matches nothing where none does."""
    letters = "".join(sorted(character for character in characters if script_of(character) in scripts))
    return re.compile(f"[{re.escape(letters)}]" if letters else NOTHING)
