"""Write the corpus of hostile payloads anew: a file a case and a manifest that says what each must raise.

Run as ``python -m tests.hostile.make_corpus`` from the project's root, after adding a case, and read the difference
before committing it. The committed files are the truth, never the script: an old file that is refused otherwise than
before is a defect of the decoder, unless the format has a new version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fedcomp
from fedcomp.errors import PayloadError
from tests.hostile.cases import adaptive, coded, kashin, plain, powersgd, qsgd, quicfl, rotated, sparse, wire
from tests.hostile.cases.case import SEED, Case

CORPUS = Path(__file__).parent / "corpus"
MAX_BYTES = 2048
_HEAD = """\
# Payloads that must be refused, each wrong in one way; written by tests/hostile/make_corpus.py.
# error: the exact class. says: what the message holds. why: what a decoder might do that does not look.
"""


def cases() -> Iterator[Case]:
    for module in (wire, plain, rotated, adaptive, coded, kashin, quicfl, qsgd, sparse, powersgd):
        yield from module.cases()


def check(case: Case) -> None:
    """Raise unless the payload is small and refused as the case says."""
    if len(case.payload) > MAX_BYTES:
        raise ValueError(f"{case.name} has {len(case.payload)} bytes; allowed: {MAX_BYTES}")
    try:
        fedcomp.decode(case.payload, seed=SEED, expected_dim=case.expected_dim)
    except PayloadError as error:
        if type(error) is not case.error or case.says not in str(error):
            raise ValueError(f"{case.name}: {type(error).__name__}: {error}") from error
        return
    raise ValueError(f"{case.name} decodes")


def entry(case: Case) -> str:
    """Return a case's table in the manifest; a JSON string is a TOML string too."""
    fields: dict[str, str | int] = {"file": f"{case.name}.bin", "error": case.error.__name__}
    if case.says:
        fields["says"] = case.says
    if case.expected_dim is not None:
        fields["expected_dim"] = case.expected_dim
    fields["why"] = case.why
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())
    return "\n[[case]]\n" + "".join(lines)


def main() -> None:
    made = {case.name: case for case in cases()}
    if len(made) != len(list(cases())):
        raise ValueError("two cases have one name")
    for case in made.values():
        check(case)
    CORPUS.mkdir(exist_ok=True)
    for path in CORPUS.glob("*.bin"):
        path.unlink()
    for case in made.values():
        (CORPUS / f"{case.name}.bin").write_bytes(case.payload)
    entries = "".join(entry(case) for case in made.values())
    (CORPUS / "manifest.toml").write_text(f"{_HEAD}seed = {SEED}\n{entries}", encoding="utf-8")


if __name__ == "__main__":
    main()
