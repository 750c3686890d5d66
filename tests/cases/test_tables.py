"""That every case and rule that is due has its test, or says what it waits for."""

from __future__ import annotations

from pathlib import Path

from scripts import cases

README = Path(cases.README).read_text(encoding="utf-8")


def test_every_case_and_rule_that_is_due_is_cited_by_a_test_or_waits() -> None:
    """The list below the tables is empty."""
    assert cases.missing() == []
    assert cases.missing_security() == []


def test_what_waits_is_due_and_cited_by_no_test_and_says_for_what() -> None:
    """An entry is taken out once its test is there, so the list never says too much."""
    later = cases.waiting(README)
    known = {*cases.due(), *cases.due(cases.RULES)}
    cited = {*cases.case_tests(), *cases.rule_files()}

    assert set(later) <= known
    assert not set(later) & cited
    assert all(len(reason.split()) >= 1 for reason in later.values())
    assert len(later) > 5


def test_rules_are_found_in_all_the_ways_they_are_cited() -> None:
    """One alone, lists, spans, and not what only looks like one."""
    text = "spec E4, E12; case 5. Spec L3 and L5: x; spec R2-R4; spec, operations table; S9; K5"

    assert cases.rules_cited(text) == {"E4", "E12", "L3", "L5", "R2", "R3", "R4"}


def test_cases_of_security_are_found_beside_rules_of_like_names() -> None:
    """Both begin with S; the word before tells them apart."""
    text = "security S9; spec S1. Security S19-S21, S25; case S3"

    assert cases.security_cited(text) == {"S9", "S19", "S20", "S21", "S25"}
