# SPDX-License-Identifier: Apache-2.0
"""From a file to a valid spec, or to all its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path as FilePath

from pydantic import ValidationError

from dnsteer.checks.access import check_access
from dnsteer.checks.addresses import check_addresses, check_reachable
from dnsteer.checks.announce import check_announce
from dnsteer.checks.backup import as_written, check_backups
from dnsteer.checks.balance import check_balance
from dnsteer.checks.bringup import check_bringup
from dnsteer.checks.devices import check_devices
from dnsteer.checks.empty_keys import check_empty_keys
from dnsteer.checks.extension import check_extension
from dnsteer.checks.health import check_health, check_judgement, check_probe
from dnsteer.checks.limits import check_limits
from dnsteer.checks.neighbors import check_neighbors
from dnsteer.checks.own_traffic import check_own_traffic
from dnsteer.checks.pools_and_vips import check_modes, check_pools, check_services, check_vips
from dnsteer.checks.routed import check_routed
from dnsteer.checks.switch import check_switch
from dnsteer.checks.tracking import check_tracking
from dnsteer.checks.tunnels import check_tunnels
from dnsteer.checks.vlans import check_vlans
from dnsteer.checks.warnings import warnings
from dnsteer.checks.workers import check_workers
from dnsteer.spec.backups import with_backups, with_lines
from dnsteer.spec.document import Document
from dnsteer.spec.errors import MAX_FINDINGS, Finding, SpecError, show_value
from dnsteer.spec.loaded import Loaded, Scope, with_slots
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import read_document
from dnsteer.spec.schema_errors import findings_of
from dnsteer.spec.workers import positions_in_file, with_workers

Check = Callable[[Scope], Iterator[Finding]]
_CHECKS: Sequence[Check] = (
    check_switch,
    check_vlans,
    check_devices,
    check_bringup,
    check_pools,
    check_vips,
    check_addresses,
    check_reachable,
    check_services,
    check_extension,
    check_modes,
    check_workers,
    check_probe,
    check_neighbors,
    check_health,
    check_judgement,
    check_backups,
    check_balance,
    check_announce,
    check_access,
    check_routed,
    check_limits,
    check_tracking,
    check_own_traffic,
    check_tunnels,
)
_OF_WRITTEN_POOLS = (check_judgement, check_backups, check_balance, check_announce)
_SKIPPED_FOR_RECORDED = (
    check_devices,
    check_bringup,
    check_neighbors,
    check_reachable,
    check_health,
    check_judgement,
    check_balance,
    check_announce,
    check_access,
    check_routed,
)
"""What finds mistakes that keep nobody from making the tables."""
_OF_SLOT_NUMBERS: Sequence[Check] = (check_pools, check_extension)
"""What looks at the number of slots."""


def load_spec(file: FilePath) -> Loaded:
    """Read *file*. Raises SpecError with all findings of the first phase that fails: syntax, structure, meaning."""
    return check_document(read_document(file))


def check_document(doc: Document, *, recorded: bool = False) -> Loaded:
    """Check a parsed document. Raises SpecError as load_spec does.

    One that was *recorded* when it was applied is asked only whether tables can be made of it: checks of what is meant that
    a newer version has must not leave a running switch without failover, `restore` and `rollback`.
    """
    if not isinstance(doc.value, dict):
        expected = "a mapping with the keys apiVersion, switch, pools and vips"
        hint = "start from examples/quickstart.yaml"
        raise SpecError(doc.file, [Finding(doc.line(()), (), show_value(doc.value), expected, hint)])
    try:
        written = Spec.model_validate(doc.value)
    except ValidationError as err:
        raise SpecError(doc.file, findings_of(err, doc), err.error_count()) from None
    if not recorded:
        _refuse(Scope(written, doc), (check_empty_keys,))
    checks = [check for check in _CHECKS if not (recorded and check in _SKIPPED_FOR_RECORDED)]
    spec, doc = with_workers(written), replace(doc, positions=positions_in_file(written))
    scope = Scope(spec, doc)
    _refuse(scope, checks)
    found = (*doc.warnings, *dict.fromkeys(warnings(scope)))
    if any(pool.backup for pool in spec.pools.values()):
        doc = with_lines(doc, written)
        of_backends = [check for check in checks if check not in _OF_WRITTEN_POOLS]
        _refuse(Scope(with_backups(spec, standby=False), doc), of_backends, lambda f: as_written(f, written))
    return Loaded(with_backups(spec), doc, found)


def check_slots(loaded: Loaded, slots: Mapping[str, int]) -> Loaded:
    """Check a spec again with other numbers of slots by pool. Raises SpecError if it is invalid with these."""
    spec = with_slots(loaded.spec, slots)
    _refuse(Scope(spec, loaded.document), _OF_SLOT_NUMBERS)
    return Loaded(spec, loaded.document, loaded.warnings, slots)


def _refuse(scope: Scope, checks: Sequence[Check], respell: Callable[[Finding], Finding] = lambda f: f) -> None:
    found: Iterator[Finding] = (respell(finding) for check in checks for finding in check(scope))
    if scope.doc.positions or scope.doc.written_at:  # workers of a backend, and what has one default, have one mistake
        found = _each_once(found)
    findings = list(islice(found, MAX_FINDINGS + 1))
    if findings:
        raise SpecError(scope.doc.file, findings)


def _each_once(findings: Iterator[Finding]) -> Iterator[Finding]:
    seen: set[Finding] = set()
    for finding in findings:
        if finding not in seen:
            seen.add(finding)
            yield finding
