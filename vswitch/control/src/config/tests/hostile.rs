//! Files by accident or malice: syntax errors, encodings, lengths, things that are no files.

use super::super::ConfigFile;
use super::{expect, report};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use vswitch_dataplane::limits::CONFIG_LEN_MAX;

#[test]
fn all_syntax_errors_and_what_is_certain_besides() {
    expect(
        "[dpdk]\nmemory_mb = 1\nmemory_mb = 512\nhugepages = ture\nfile_prefix = \"abc\nx = 1\n[worker]\nidle_sleep_us =\n[dpdk]\n",
        &[
            "f:2:13: memory_mb: 1 is out of range; use 64 to 1048576",
            "f:3:1: duplicate key; give a key or [section] once in its table; only [[bridge]] and [[bridge.port]] repeat",
            "f:4:13: invalid boolean, expected `true`; see https://toml.io/en/v1.1.0",
            "f:5:19: invalid basic string, expected `\"`; close the quote on the same line; write \\\\ for a backslash and no \
             control characters",
            "f:6:1: x: unknown key; [dpdk] has the keys: worker_cores, main_core, memory_mb, mbufs, hugepages, file_prefix, pci, \
             args, allow_drivers",
            "f:8:16: string values must be quoted, expected literal string; put text in double quotes",
            "f:9:2: duplicate key; give a key or [section] once in its table; only [[bridge]] and [[bridge.port]] repeat",
        ],
    );
}

#[test]
fn after_a_broken_header_nothing_is_said_about_its_section() {
    expect(
        "[worker]\nidle = 1\n[[bridge]]\nname = 'b'\n[[bridge.port\nname = 'x'\ntype = 'tpa'\n[[bridge.port]]\nmtu = 1\n",
        &[
            "f:2:1: idle: unknown key; [worker] has the keys: idle_sleep_us, call_delay_us",
            "f:5:14: unclosed array table, expected `]]`; write [[section]]",
            "f:9:7: mtu: 1 is out of range; use 68 to 9702",
        ],
    );
}

#[test]
fn a_file_cut_short_is_refused() {
    expect(
        "[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = \"po",
        &[
            "f:4:11: invalid basic string, expected `\"`; close the quote on the same line; write \\\\ for a backslash and no \
           control characters",
        ],
    );
}

#[test]
fn line_ends_and_byte_order_marks() {
    expect(
        "\u{feff}x = 1\r\n[dpdk]\r\n\u{fc} = 1\r\n'\u{fc}\u{fc}' = 1 # \u{fc}\r\n",
        &[
            "f:1:1: x: unknown key; the file has the keys: dpdk, worker, conntrack, antrea, slow_path, control, paths, process, debug, observe, bridge, route",
            "f:3:1: invalid unquoted key, expected letters, numbers, `-`, `_`; see https://toml.io/en/v1.1.0",
            "f:4:1: \"üü\": unknown key; [dpdk] has the keys: worker_cores, main_core, memory_mb, mbufs, hugepages, file_prefix, pci, args, allow_drivers",
        ],
    );
    expect(
        "[dpdk]\rpci = true\n",
        &["f:1:8: carriage return must be followed by newline, expected newline; end lines with LF or CR LF"],
    );
    expect(
        "[dpdk]\npci = true # \0\n",
        &["f:2:14: invalid comment character, expected printable characters; remove control characters"],
    );
    expect("[control]\nsocket = \"/a\\u0000b\"\n", &["f:2:10: socket: contains a NUL character; remove it"]);
}

#[test]
fn what_cannot_be_read_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let refused = |path: &Path| ConfigFile::load(path, &[0]).expect_err("refused").to_string();
    let expected = |path: &Path, text: &str| format!("{}: {text}", path.display());
    let missing = path("missing");
    let text = "cannot be read: No such file or directory (os error 2); name an existing file with --config";
    assert_eq!(refused(&missing), expected(&missing, text));
    assert_eq!(refused(dir.path()), expected(dir.path(), "is a directory; name a file with --config"));
    let zero = Path::new("/dev/zero");
    assert_eq!(refused(zero), "/dev/zero: is not a regular file; name a file with --config");
    let looped = path("loop");
    std::os::unix::fs::symlink(&looped, &looped).expect("a link");
    assert!(refused(&looped).contains(": cannot be read: Too many levels of symbolic links"), "{}", refused(&looped));
    let latin1 = path("latin1");
    std::fs::write(&latin1, b"# ok\nx = '\xfc\xfc'").expect("a file");
    let text = ":2:6: byte 0xfc (offset 10) is not UTF-8; save the file as UTF-8";
    assert_eq!(refused(&latin1), format!("{}{text}", latin1.display()));
    let cut = path("cut");
    std::fs::write(&cut, b"a = '\xe2\x82").expect("a file");
    assert!(refused(&cut).contains(":1:6: byte 0xe2 (offset 5) is not UTF-8"), "{}", refused(&cut));
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("long");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(CONFIG_LEN_MAX + 1).expect("a length");
    let refused = ConfigFile::load(&path, &[0]).expect_err("refused").to_string();
    let text = "has 4194305 bytes or more, the limit is 4194304; is this really the configuration file?";
    assert_eq!(refused, format!("{}: {text}", path.display()));
    std::fs::write(&path, "#".repeat(usize::try_from(CONFIG_LEN_MAX).expect("fits"))).expect("a file");
    assert!(ConfigFile::load(&path, &[0]).is_ok_and(|read| !read.report().has_errors()));
}

#[test]
fn a_file_that_anyone_may_change_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("open");
    std::fs::write(&path, "").expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o646)).expect("a mode");
    let read = ConfigFile::load(&path, &[0]).expect("read");
    let expected = format!("{}: anyone may change this file (mode 0646); chmod o-w it", path.display());
    assert_eq!(read.report().to_string(), expected);
    assert!(read.report().has_errors());
}

#[test]
fn of_a_long_file_the_first_syntax_error_is_told() {
    let text = format!("#{}\nx = ture\ny = ture\n", "#".repeat(512 << 10));
    expect(&text, &["f:2:5: invalid boolean, expected `true`; see https://toml.io/en/v1.1.0"]);
}

/// Nothing is worse than linear: 4 MiB of anything take a moment, not minutes.
#[test]
fn large_files_of_nonsense_are_refused_quickly() {
    let fill = |piece: &str| piece.repeat(usize::try_from(CONFIG_LEN_MAX).expect("fits") / 2 / piece.len());
    let numbered = |start: &str, end: &str| -> String { (0..100_000).map(|i| format!("{start}{i}{end}")).collect() };
    for (what, text) in [
        ("brackets", "a = ".to_owned() + &fill("[")),
        ("headers", fill("[a]\n")),
        ("bridges", fill("[[bridge]]\n")),
        ("ports", "[[bridge]]\n".to_owned() + &fill("[[bridge.port]]\n")),
        ("unknown keys", numbered("key", " = 1\n")),
        ("unknown keys on one line", format!("dpdk = {{ {} }}", numbered("key", " = 1, "))),
        ("cores", format!("[dpdk]\nworker_cores = [{}]", fill("1, "))),
        ("wrong elements", format!("[dpdk]\nargs = [{}]", fill("1, "))),
        (
            "external ids",
            format!("[[bridge]]\n[[bridge.port]]\n[bridge.port.external_ids]\n{}", numbered("k", " = 1\n")),
        ),
        ("dotted keys", fill("a.")),
        ("quotes", fill("\"")),
        ("equals", fill("=\n")),
        ("equals, all of them reported", "=\n".repeat(256 << 10)),
        ("headers cut short", fill("[[bridge.port\n")),
        ("a long name", format!("[[bridge]]\nname = '{}'", fill("x"))),
        ("a long key", fill("x")),
    ] {
        let started = Instant::now();
        let lines = report(&text);
        let elapsed = started.elapsed();
        assert!(!lines.is_empty(), "{what}");
        assert!(lines.len() <= super::super::PROBLEMS_MAX + 1, "{what}: {} lines", lines.len());
        assert!(elapsed < Duration::from_secs(60), "{what}: {elapsed:?}");
    }
}
