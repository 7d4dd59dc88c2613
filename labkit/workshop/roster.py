"""Who is in the room: names, a number for each, and a password of which only a hash is kept."""

import hashlib
import hmac
import json
import os
import re
import secrets
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path

TEACHER = "teacher"
SEATS = 20
FIRST_USER = 210_000
"""Users of the machine, one for each learner, begin here: no distribution gives such numbers."""
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Of passwords: none of them looks like another one on paper."""


@dataclass(frozen=True)
class Person:
    """One person: a name, the number of the machine's user, and the password's salt and hash."""

    name: str
    user: int
    salt: str
    hashed: str

    def knows(self, password: str) -> bool:
        """Whether this is the password."""
        return hmac.compare_digest(self.hashed, _hash(password, self.salt))


def names_from(text: str) -> list[str]:
    """The names of a file with one on each line, without accents; other signs become "-".

    Raises   ValueError   a line holds no name, or two lines the same one
    """
    found: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        letters = unicodedata.normalize("NFKD", line.casefold())
        letters = "".join(sign for sign in letters if not unicodedata.combining(sign))
        name = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:31]
        if not NAME.fullmatch(name) or name == TEACHER:
            raise ValueError(f"{line!r}: a name begins with a letter, and is not {TEACHER!r}")
        if name in found:
            raise ValueError(f"{line!r} is there twice, as {name!r}")
        found.append(name)
    if not found:
        raise ValueError("no name in the file")
    return found


def seats() -> list[str]:
    """Names for a room whose learners are not known beforehand."""
    return [f"seat-{number:02}" for number in range(1, SEATS + 1)]


def read_roster(file: Path) -> dict[str, Person]:
    """Everybody by name; nobody where there is no file yet."""
    if not file.exists():
        return {}
    return {each["name"]: Person(**each) for each in json.loads(file.read_text(encoding="utf-8"))}


def admit(file: Path, names: list[str], anew: bool = False) -> dict[str, str]:
    """Everybody named is on the roster; returns the passwords made now, by name.

    anew   make new passwords for those who have one, too
    """
    people = read_roster(file)
    made: dict[str, str] = {}
    for name in (TEACHER, *names):
        if name in people and not anew:
            continue
        made[name] = _password()
        salt = secrets.token_hex(16)
        user = people[name].user if name in people else FIRST_USER + len(people)
        people[name] = Person(name, user, salt, _hash(made[name], salt))
    new = file.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump([asdict(person) for person in people.values()], out, indent=1)
    new.replace(file)
    return made


def _password() -> str:
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))


def _hash(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=salt.encode(), n=2**12, r=8, p=1).hex()
