"""The lab's resctrl and nftop's model: told the same groups, they say the same."""

from __future__ import annotations

import pytest

from nftop.model.rdt.rdt import EVENTS, ROOT
from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from nftop.sim.rdt import rdt_of, value
from tests.lab import machine
from tests.lab.resctrl import numbers, profile
from tests.lab.resctrl.hardware import hardware_of
from tests.lab.resctrl.host import host_of
from tests.lab.resctrl.mount import mount
from tests.lab.resctrl.tree import ResctrlTree
from tests.lab.tests.hosts import SCALE, Clock, Lab, People


def arranged(model: Model) -> Lab:
    """A lab whose operator made the scenario's groups as soon as it began."""
    clock, people = Clock(), People()
    hardware = hardware_of(machine.load("bdx").tables["resctrl"], model.layout.topology)
    state = mount(hardware, profile.load("7.2"), people, host_of(model), clock)
    host, classes = Lab(ResctrlTree(state), clock, people), rdt_of(model).classes
    for group in classes.groups:
        path = "" if group == ROOT else f"/{group}"
        if path:
            host.mkdir(path)
            host.echo(numbers.list_text(classes.cpus(group)), f"{path}/cpus_list")
        masks = ";".join(f"{l3}={classes.mask(group, l3).bits:x}" for l3 in (0, 1))
        host.echo(f"L3:{masks}", f"{path}/schemata")
    return host


@pytest.mark.parametrize("name", ["default", "noisy"])
def test_the_lab_s_groups_are_the_model_s_on_request(name: str) -> None:
    model = model_of(scenario.load(name), 88)
    host, rdt = arranged(model), rdt_of(model)
    # When all that steps of the scenario and making the groups changed has settled.
    host.clock.now_ns = model.starts_ns[-1] + 100 * 10**9
    for group in rdt.classes.groups:
        path = "" if group == ROOT else f"/{group}"
        for l3 in (0, 1):
            for event in EVENTS:
                mine = int(host.cat(f"{path}/mon_data/mon_L3_{l3:02d}/{event}"))
                theirs = value(rdt, group, l3, event, host.clock())
                # The model's occupancy breathes by `swing`; counters have whole steps.
                slack = model.scenario.swing * theirs if event == "llc_occupancy" else 0.0
                assert theirs - SCALE <= mine <= theirs + slack + SCALE


def test_a_cpu_takes_its_traffic_along() -> None:
    model = model_of(scenario.load("default"), 88)
    host = arranged(model)
    vpp = rdt_of(model).classes.cpus("vpp")
    host.clock.forward(10.0)
    host.mkdir("/mine")
    host.echo(numbers.list_text(vpp), "/mine/cpus_list")
    before = int(host.cat("/vpp/mon_data/mon_L3_00/mbm_total_bytes"))
    host.clock.forward(10.0)
    traffic = host_of(model).traffic
    moved = (traffic(20 * 10**9) - traffic(10 * 10**9))[list(vpp), 0].sum()
    mine = int(host.cat("/mine/mon_data/mon_L3_00/mbm_total_bytes"))
    assert moved > 1e9
    assert moved - SCALE < mine <= moved
    assert int(host.cat("/vpp/mon_data/mon_L3_00/mbm_total_bytes")) == before
