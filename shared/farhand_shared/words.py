"""Six words that two people compare: both screens show the same ones, or nobody confirms."""

from hashlib import sha256
from typing import Final

WORD_COUNT: Final = 6
_CONTEXT: Final = b"farhand/words/v1"

# 256 short common nouns, one per byte. No two begin with the same four letters or are one typing
# mistake apart (a test says so). Never reorder: an old daemon has the same list.
_LIST: Final = """
agent alarm almond amber antenna apron arch arctic armor atlas autumn baker balloon bamboo
banana banjo barn barrel basil beach bell berry blanket blossom boat bonfire border bottle
brick broom bubble bucket buffalo cabin cactus camel candle canyon cargo carpet cedar chalk
cherry chess chimney cinema circus clock clover coffee copper cotton cousin cricket crown
crystal cube curtain cushion cyclone daisy decade desert diamond dolphin domino dragon
drawer drum duck earth easel echo eclipse envoy fabric falcon farmer feather fence fiber
fiddle forest galaxy garden garlic gate gazelle ghost giant giraffe glass globe gondola
gopher granite guitar harvest hazel heron honey hotdog hydrant iguana inkwell insect ivory
jacket jaguar jasmine jelly jewel journal jungle juniper kayak kernel kettle king kiosk
kitchen knight koala ladder lantern laptop lava leaf lemon letter library lily linen lizard
lobster lotus lullaby lunch magnet mammoth mango meadow melon mirror mosaic mother mouse
museum mustard narwhal nectar nest north nutmeg oasis oatmeal ocean octopus olive onion
opera orbit ostrich otter oxygen paddle pajama panda panther paper parrot pebble pencil
penguin piano picnic pigeon pillow planet pocket potato pretzel pumpkin pyramid quartz queen
quilt rabbit raccoon radar rainbow rhubarb ribbon robot sailor salad salmon sandal saturn
school shadow shark sheep shuttle silver skylark snow spinach spoon square statue stone
sugar summer sunrise sunset swan table teapot temple tennis thimble thunder ticket tiger
toast tomato tractor tree trolley trumpet tulip tundra tunnel turtle uncle unicorn vanilla
velvet village violin volcano vulture waffle wagon water whale wheat whisker window wolf
wombat yogurt zebra zigzag zipper
"""
WORDS: Final = tuple(_LIST.split())


def six_words(spki_der: bytes, root_spki_sha256: bytes, code_secret: bytes) -> tuple[str, ...]:
    """Return six words (48 bits) over the machine's public key, the server's root and the code.

    Each part is preceded by its length, so that no other split of the same bytes says the same.
    """
    digest = sha256(_CONTEXT)
    for part in (spki_der, root_spki_sha256, code_secret):
        digest.update(len(part).to_bytes(4, "big") + part)
    return tuple(WORDS[byte] for byte in digest.digest()[:WORD_COUNT])
