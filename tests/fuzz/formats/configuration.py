"""The operator's files: config.toml with its rules, rules.toml, columns.toml."""

from __future__ import annotations

from contextlib import suppress

from nftop.cli.config import ConfigError, read_config, shown
from nftop.cli.main import check_arguments
from nftop.model.bounded_toml import parse_toml
from nftop.store.user.chosen_columns import columns_file, columns_text
from nftop.store.user.rules import parse_rules, rules_file, rules_text
from tests.fuzz.registry import scratch

WORDS = (
    b"interval_s = ", b"cpu_list = ", b"quiet_cpus = ", b"tma_level = ", b"queue_map = ",
    b"color = ", b"theme = ", b"ascii = true", b"pmu = ", b'"auto"', b"[rules]", b"[rules.drops]",
    b"muted = true", b"limit = ", b"[rules.low-ipc.nf.'a']", b"acknowledged = [", b"[columns]",
    b"cores = [", b"nan", b"inf", b"1e400", b"-1", b"0x7f", b"'''", b'"""', b"\\u001b",
    b"\\U0010ffff", b"[[", b"]]", b"{", b"}", b"= {a.b.c = 1}", b"1979-05-27T07:32:00Z", b"#",
    b"\r\n", b"\0", b"9" * 5000, b"a.b.c",
)  # fmt: skip


def seeds() -> list[bytes]:
    return [
        (
            b'interval_s = 0.5\ncpu_list = "0-7"\nquiet_cpus = "2-3"\ntma_level = 2\n'
            b'theme = "dark"\n'
            b'queue_map = ["north:(0,0,1)"]\ncolor = "never"\nascii = true\nutc = false\n'
            b'pqos = "off"\n'
            b'[rules.low-ipc]\nmuted = true\n[rules.drops.nf."north/l3fwd"]\nlimit = 1000\n'
        ),
        b'[rules]\nacknowledged = ["a", "b"]\n[rules.drops]\nlimit = 1.5\nmuted = false\n',
        b'[columns]\ncores = ["cpu", "thread", "cpp"]\nnfs = ["name"]\n',
        b"memory_peak_gbs = 100\npmu = 'perf'\n",
    ]


def play(data: bytes) -> None:
    """As every file of them; what is accepted is written as TOML that reads back the same."""
    folder = scratch("configuration") / "nftop"
    folder.mkdir(exist_ok=True)
    environ = {"XDG_CONFIG_HOME": str(scratch("configuration"))}
    paths = [folder / name for name in ("config.toml", "rules.toml", "columns.toml")]
    for path in paths:
        path.write_bytes(data)
    with suppress(ConfigError):
        settings = read_config(paths[:1], check_arguments)
        table = parse_toml(shown(settings, (paths[0], paths[0])))
        for item in settings:
            assert item.key.name in table
    try:
        rules = rules_file(environ, paths[0])
    except ValueError as error:
        assert str(error).startswith(str(paths[0]))
    else:
        again = parse_rules(parse_toml(rules_text(rules.settings)).get("rules", {}))
        assert set(again.rows) == set(rules.settings.rows)
        assert again.acknowledged == rules.settings.acknowledged
    own = rules_file(environ)
    assert own.problem or own.settings is not None
    chosen = columns_file(environ).chosen
    written = parse_toml(columns_text(chosen))["columns"]
    assert {name: tuple(keys) for name, keys in written.items()} == {
        name: keys for name, keys in chosen.items() if keys
    }
