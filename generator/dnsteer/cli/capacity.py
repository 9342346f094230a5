# SPDX-License-Identifier: Apache-2.0
"""The verb that says how fast hardware will forward a spec: `capacity`. No root needed, no hardware either."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import Exit, Json, SpecFile, err, fail, load_and_warn, out, print_json, reporting, spec_warnings
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.cli.verify_offload import profile_named
from dnsteer.spec.model.spec import Flavor, Hardware

if TYPE_CHECKING:
    from dnsteer.capacity.capacity_report import CapacityReport
    from dnsteer.spec.loaded import Loaded

_MAX_BYTES = 8900
"""Largest DNS message that is taken to be in one packet: a jumbo frame's, with room for headers."""


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("capacity")(reads_spec(capacity))


def capacity(
    spec: SpecFile,
    hardware: Annotated[
        Hardware | None, typer.Option(help="Hardware to predict for; by default the spec's switch.hardware.")
    ] = None,
    flavor: Annotated[
        str | None,
        typer.Option(
            metavar="F", help="Flavor or profile to judge by, such as ovs-doca or ovs-doca-2; the spec's by default."
        ),
    ] = None,
    frame: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F",
            help="Frame size: bytes (64 to 9600), query, answer, imix or jumbo; repeat for several. "
            "By default 64, query, answer, imix and jumbo.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Predict as if the spec said this, such as pools.a.selection=dp-hash; "
            "repeat for several. Shows the figures before and after.",
        ),
    ] = None,
    query_bytes: Annotated[
        int | None,
        typer.Option(min=17, max=_MAX_BYTES, help="Bytes of a DNS query, without headers.", show_default="54"),
    ] = None,
    answer_bytes: Annotated[
        int | None,
        typer.Option(min=12, max=_MAX_BYTES, help="Bytes of a DNS answer, without headers.", show_default="844"),
    ] = None,
    arm_cores: Annotated[
        int, typer.Option(min=1, max=64, help="Cores of the card that Open vSwitch forwards with (pmd-cpu-mask).")
    ] = 1,
    counters: Annotated[
        bool, typer.Option(help="Whether each hardware rule counts its packets, as rules of Open vSwitch do.")
    ] = True,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw rate against frame size and against pipe depth, as SVG."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show each kind of path by frame size, and each VIP.")
    ] = False,
    json: Json = False,
) -> None:
    """Predict packets, bits and queries per second, latency and new connections on a BlueField, and say what limits them.

    Totals first: all pools and each of them. By frame size: --frame, or --verbose with every VIP.

    Rests on published measurements only: nothing is measured here. Each figure says whether it is a reading, an
    interpolation or an extrapolation, and of what. The model: docs/capacity.md.
    """
    with reporting(json):
        _require("scipy", "capacity", json)
        from dnsteer.capacity.card_setup import NoHardwareError
        from dnsteer.capacity.frame_sizes import DEFAULT, DnsSizes, FrameError, parse_frame

        try:
            frames = list(dict.fromkeys(parse_frame(f) for f in frame or DEFAULT))
        except FrameError as error:
            fail(f"--frame: {error}", Exit.USAGE, as_json=json)
        if plot is not None:
            _check_plot_file(plot, json)
            _require("matplotlib", "--plot", json)
        default = DnsSizes()
        sizes = DnsSizes(query_bytes or default.query, answer_bytes or default.answer)
        prediction = _Prediction(hardware, flavor, arm_cores, counters, sizes, frames, json)
        loaded = load_and_warn(spec, json, verbose)
        try:
            before, after = prediction.reports(loaded, settings or [])
        except NoHardwareError as error:
            fail(str(error), Exit.USAGE, as_json=json)
        if plot is not None:
            from dnsteer.capacity.plot import draw
            from dnsteer.render.atomic_files import write_file

            write_file(plot, draw(after, before))
        if json:
            shown = before.as_json() if before else None
            print_json({"ok": True, **after.as_json(), "set": settings or [], "before": shown, **spec_warnings(loaded)})
            return
        from dnsteer.cli.capacity_view import view

        paths = verbose or bool(frame)
        shown_as = view(after, before, settings or [], width=out.rich.width, paths=paths, vips=verbose)
        out.rich.print(shown_as, soft_wrap=False)
        if plot is not None:
            out.print(f"\n{plot}: written")


class _Prediction:
    """A prediction with the options of the command line."""

    def __init__(
        self,
        hardware: Hardware | None,
        flavor: str | None,
        arm_cores: int,
        counters: bool,
        sizes: object,
        frames: list[str],
        json: bool,
    ) -> None:
        self._hardware = hardware
        self._flavor = flavor
        self._options = {"arm_cores": arm_cores, "counters": counters, "sizes": sizes}
        self._frames = frames
        self._json = json

    def reports(self, loaded: Loaded, settings: Sequence[str]) -> tuple[CapacityReport | None, CapacityReport]:
        """The report on the spec before the settings, None when there are none, and after them."""
        from dnsteer.capacity.card_setup import hardware_of
        from dnsteer.capacity.whatif import sets_path, with_settings

        after = with_settings(loaded, settings) if settings else loaded
        asked = sets_path(settings, ("switch", "hardware")) or after.spec.switch.hardware != loaded.spec.switch.hardware
        if self._hardware is not None and asked:
            fail(
                "--hardware and --set switch.hardware both name the hardware; give only one",
                Exit.USAGE,
                as_json=self._json,
            )
        if self._flavor is not None and after.spec.switch.flavor != loaded.spec.switch.flavor:
            fail("--flavor and --set switch.flavor both name the flavor; give only one", Exit.USAGE, as_json=self._json)
        hardware = hardware_of(after, self._hardware)
        found = self._report(after, hardware)
        if not settings:
            return None, found
        was = self._hardware or loaded.spec.switch.hardware or hardware
        return self._report(loaded, was), found

    def _report(self, loaded: Loaded, hardware: Hardware) -> CapacityReport:
        from rich.progress import Progress, SpinnerColumn, TextColumn

        from dnsteer.capacity.capacity_report import beyond_limits, capacity_report
        from dnsteer.capacity.card_setup import card_setup
        from dnsteer.capacity.paths import paths_of

        judge = profile_named(self._flavor, loaded, self._json)
        quiet = self._json or not sys.stderr.isatty()
        columns = (SpinnerColumn(), TextColumn("{task.completed} packets through the private switch"))
        with Progress(*columns, console=err.rich, transient=True, disable=quiet) as progress:
            task = progress.add_task("capacity", total=None)
            found = paths_of(loaded, judge, lambda n: progress.advance(task, n))
        flavor = Flavor(judge.flavor)
        paths = found.paths
        setup = card_setup(loaded, paths, hardware=hardware, flavor=flavor, **self._options)  # type: ignore[arg-type]
        return capacity_report(loaded, setup, paths, self._frames, beyond_limits(setup, judge, found.flows))


def _require(package: str, what: str, json: bool) -> None:
    """Exit where a package of the extra `capacity` is not installed; *what* needs it."""
    if importlib.util.find_spec(package) is None:
        message = f"{what} needs {package}, which is not installed: pip install 'dnsteer[capacity]'"
        fail(message, Exit.UNAVAILABLE, as_json=json)


def _check_plot_file(file: Path, json: bool) -> None:
    """Exit before the work where the file could not be written after it."""
    if file.suffix.lower() != ".svg":
        fail(f"--plot: found {str(file)!r}; expected a file name that ends in .svg", Exit.USAGE, as_json=json)
    if file.is_dir():
        fail(f"--plot: {file} is a folder; expected a file", Exit.ERROR, as_json=json)
    if not file.parent.is_dir():
        fail(f"--plot: there is no folder {file.parent}", Exit.ERROR, as_json=json)
