# SPDX-License-Identifier: Apache-2.0
"""What templates render must be flows of the plan, each once, with one for all other packets in each table; groups
too. After their actions a check sees what becomes of a packet."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.load_errors import rejected, shown_differently
from dnsteer.render import flows
from dnsteer.render.flow_checks import check_actions, check_buckets, check_flows
from dnsteer.render.flows import flow_lines, groups_of, lines_of, render_table
from dnsteer.render.templates import check_own_templates, environment, template_line, templates_dir
from dnsteer.switch.openflow import RejectedError, Tables
from dnsteer.tables.order import PIPELINE
from dnsteer.tables.table import TemplateError
from tests.packet.switches import EXAMPLES, LARGE, spec_of

PLAN = build_plan(load_spec(EXAMPLES / "quickstart.yaml"))
FORWARD = PIPELINE.tables["forward"]
LINES = flow_lines(render_table(PLAN, FORWARD, notes=False))


@pytest.mark.parametrize("spec", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.stem)
def test_flows_of_the_examples_pass_the_checks(spec: object) -> None:
    plan = build_plan(load_spec(spec))  # type: ignore[arg-type]
    assert lines_of(plan, check=True) == lines_of(plan)


@pytest.mark.parametrize("cookie", ["0x5", "0xd453080000000005", "0x0"])
def test_a_flow_with_an_unknown_cookie_is_refused(cookie: str) -> None:
    """The switch would take such a flow for somebody else's, and `check` would not compare it."""
    _, _, rest = LINES[0].partition(",")
    with pytest.raises(TemplateError) as error:
        check_flows(PLAN, FORWARD, [f"cookie={cookie},{rest}", *LINES])
    said = f"cookie {cookie} belongs to nothing of the plan, so the flow would count as somebody else's; write"
    assert said in str(error.value) and rest in str(error.value)


@pytest.mark.parametrize("actions", ["", ",goto_table:60"])
def test_flows_with_one_match_are_refused(actions: str) -> None:
    with pytest.raises(TemplateError, match=r"^tables/forward\.j2(:21)?: two flows have the same priority and match"):
        check_flows(PLAN, FORWARD, [*LINES, LINES[1] + actions])


def test_a_group_without_a_row_is_refused() -> None:
    line = LINES[0].partition(" actions=")[0].replace("reg0=0x", "reg0=0x9") + " actions=group:99"
    with pytest.raises(
        TemplateError, match=r"^tables/forward\.j2: group 99 is not there; groups are made from the rows of"
    ):
        check_flows(PLAN, FORWARD, [*LINES, line])


def test_a_table_without_a_miss_flow_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"^tables/forward\.j2: no flow for all other packets: none of priority=0"):
        check_flows(PLAN, FORWARD, LINES[:-1])


def test_errors_name_the_line_of_the_template() -> None:
    assert template_line("tables/forward.j2", LINES[0]) == "tables/forward.j2:21"
    assert template_line("tables/forward.j2", LINES[-1]) == "tables/forward.j2"
    assert template_line("tables/forward.j2", "something else") == "tables/forward.j2"
    assert template_line("tables/none.j2", LINES[0]) == "tables/none.j2"


@pytest.fixture
def grouped(tmp_path: object) -> flows.Plan:
    """A plan with a group."""
    file = tmp_path / "spec.yaml"  # type: ignore[operator]
    file.write_text(LARGE)
    return build_plan(load_spec(file))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text + "one more\n", r"groups/slot\.j2: a group is one line; expected no further line; this"),
        (lambda text: "", r"groups/slot\.j2: a group is one line; expected group_id=\d+,type=\.\.\.; no"),
        (
            lambda text: text.replace("group_id=5", "group_id=6"),
            r"groups/slot\.j2.*expected group_id=5\d+,type.*group_id=6",
        ),
    ],
)
def test_groups_are_one_line_each(
    grouped: flows.Plan, monkeypatch: pytest.MonkeyPatch, change: object, message: str
) -> None:
    assert len(groups_of(grouped)) == 1
    render = flows._render_groups
    monkeypatch.setattr(flows, "_render_groups", lambda *a, **k: change(render(*a, **k)))  # type: ignore[operator]
    with pytest.raises(TemplateError, match=message):
        groups_of(grouped)


def test_a_flow_refused_by_the_switch_is_explained() -> None:
    number = PIPELINE.tables["forward"].number
    flow = f"ADD table:{number} priority=100,reg0=0x1 cookie:0xd453 actions=group:99"
    line = LINES[0].partition(" actions=")[0] + " actions=group:99"
    said = rejected(RejectedError("OFPBAC_BAD_OUT_GROUP", flow), [line])
    assert said.startswith(
        "tables/forward.j2: the private switch refuses a flow: OFPBAC_BAD_OUT_GROUP (it sends to a group that"
    )
    of_ours = rejected(RejectedError("OFPBIC_BAD_TABLE_ID", f"ADD table:{number} {LINES[0].rpartition(' ')[2]}"), LINES)
    assert of_ours.startswith(
        "tables/forward.j2:21: the private switch refuses a flow: OFPBIC_BAD_TABLE_ID (it leads back"
    )
    group = rejected(
        RejectedError("invalid group type selct", "group add group_id=1,type=selct" + ",bucket=1" * 99), []
    )
    assert (
        group.startswith("groups/slot.j2: the private switch refuses a group: invalid group type selct")
        and len(group) < 500
    )
    assert "set_field:5->ip_dscp without ip" in rejected(RejectedError("a flow writes", ""), [])


def test_a_table_that_shows_two_flows_of_one_match_is_explained() -> None:
    other = LINES[0].rpartition(" actions=")[0] + " actions=drop"
    said = shown_differently([LINES[0], other], [], Tables(set()))
    assert said.startswith("tables/forward.j2: two flows of one table have the same priority and match: ")


@pytest.mark.parametrize("spec", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.stem)
def test_subjects_are_in_the_spec(spec: object) -> None:
    loaded = load_spec(spec)  # type: ignore[arg-type]
    for subject in build_plan(loaded).subjects.values():
        assert subject.path in loaded.document.lines or subject.path[:-1] in loaded.document.lines, subject


def test_lines_that_are_no_flows_are_refused() -> None:
    """A flow without a cookie would else be left out in silence."""
    assert flow_lines("# a comment\n\ncookie=0x1, table=0, priority=0 actions=drop\n") == [
        "cookie=0x1, table=0, priority=0 actions=drop"
    ]
    with pytest.raises(TemplateError, match=r"vip.j2: a flow is written cookie=0x.*this line was rendered: prio"):
        flow_lines("cookie=0x1, table=0, priority=0 actions=drop\npriority=1 actions=drop\n", "vip.j2")


@pytest.mark.parametrize(
    "action", ["CONTROLLER:65535", "NORMAL", "output:p1", "output:2", "p0", "sample(probability=1)"]
)
def test_actions_that_check_would_not_see_are_refused(action: str) -> None:
    """With CONTROLLER each query would go to a controller, and still be forwarded as the spec says."""
    line = f"cookie=0x1, table=20, priority=1,udp actions=set_field:0x1->reg2,{action},goto_table:30"
    with pytest.raises(
        TemplateError, match=re.escape(f"tables/vip.j2: check does not see what {action.partition('(')[0]}")
    ):
        check_actions(PLAN, PIPELINE.tables["vip"], [line.replace(f"{action},", "output:p0,"), line])


@pytest.mark.parametrize("action", ["CONTROLLER:65535", "output:p7"])
def test_actions_of_buckets_that_check_would_not_see_are_refused(action: str) -> None:
    plan = build_plan(spec_of(LARGE))
    groups = [group.text for group in groups_of(plan)]
    check_buckets(plan, "groups/slot.j2", groups)
    with pytest.raises(TemplateError, match=rf"groups/slot.j2:\d+: check does not see what {action} does"):
        check_buckets(plan, "groups/slot.j2", [groups[0].replace("resubmit", f"{action},resubmit", 1)])


@pytest.mark.parametrize(("file", "before"), [("tables/vip.j2", "goto_table:@"), ("groups/slot.j2", "resubmit(,@")])
def test_a_check_looks_at_the_actions_of_all_templates(
    file: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(templates_dir(), tmp_path / "templates")
    template = copy / file
    template.write_text(template.read_text().replace(before, f"CONTROLLER:65535,{before}"))
    plan = build_plan(spec_of(LARGE))
    with monkeypatch.context() as patch:
        patch.setattr("dnsteer.render.templates.templates_dir", lambda: copy)
        for cached in (environment, check_own_templates):
            cached.cache_clear()
        try:
            with pytest.raises(TemplateError, match=rf"{file}(:\d+)?: check does not see what CONTROLLER:65535 does"):
                lines_of(plan, check=True)
        finally:
            for cached in (environment, check_own_templates):
                cached.cache_clear()
