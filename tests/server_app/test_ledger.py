from __future__ import annotations

import json

from server_app.ledger import ClientRecord, Ledger


def test_a_client_is_known_from_its_first_mention() -> None:
    ledger = Ledger()
    assert "bank" not in ledger
    assert ledger["bank"] == ClientRecord()
    ledger["bank"].asked += 1
    assert ledger["bank"].asked == 1
    assert "bank" in ledger


def test_it_comes_back_from_json() -> None:
    ledger = Ledger()
    ledger["bank"].held_version, ledger["bank"].examples = 7, 3.5
    ledger["../évil"].last_applied_round = 2
    other = Ledger()
    other["gone"].asked = 9
    other.restore(json.loads(json.dumps(ledger.state())))
    assert other.state() == ledger.state()
    assert "gone" not in other
    assert other["../évil"].last_applied_round == 2
