"""Circles of imports between the modules of a crate: there are none but those that are named here,
and these only become fewer."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import rust_modules  # noqa: E402

# What is left: the modules of each circle. A module that leaves one is struck out here; none is
# added.
LEFT = (
    # vswitch/antrea-node
    "counted moved",
    # vswitch/antrea
    "anti_spoof compiled desired facts gateway::bridge gateway::pods "
    "membership membership::reader node::compile::entry "
    "object object::applied_to_group object::egress object::egress::compile object::endpoints "
    "object::judge object::multicast object::multicast::compile object::peer "
    "object::peer::compile object::pod object::pod::bandwidth object::pod::compile object::pod::wire object::policy "
    "object::policy::clauses object::policy::compile object::policy::deny object::policy::held "
    "object::policy::igmp object::policy::peer object::policy::read object::policy::salvage "
    "object::policy::unfit object::service object::service::choice object::service::flows "
    "object::service::flush object::service::groups object::service::judge tunnel_flows "
    "wire::writer",
    # vswitch/flow
    "field field::info field::prerequisite key matching",
    "text::actions::ct text::actions::fields text::actions::format text::actions::hash "
    "text::actions::learn text::actions::output text::actions::parse text::actions::reject",
    # vswitch/conntrack
    "request tcp timeout tracker::arena tracker::cold tracker::connection tracker::events "
    "tracker::forget tracker::helper_control tracker::hot tracker::life tracker::link "
    "tracker::rare tracker::track tracker::v6_addrs",
    # vswitch/control
    "config::file config::parse",
    "switch::numbers switch::state",
    "switch::packets switch::pipeline",
    # vswitch/dataplane
    "action::arp action::ethernet action::ip action::l4 action::nd action::packet",
    "action::op pipeline::op_count pipeline::translate::result",
    "cache::control::shared cache::fast::path",
    "cache::fast::exact cache::fast::program",
    "cache::slow::megaflow cache::tunnel::decap",
    "conntrack::quote conntrack::read",
    "pipeline::learned pipeline::learned::control pipeline::learned::views pipeline::program "
    "pipeline::state::expire pipeline::state::filter",
    "pipeline::state::buckets pipeline::state::draft pipeline::state::groups",
    "pipeline::translate::group pipeline::translate::run pipeline::translate::tags "
    "pipeline::translate::tunnel pipeline::translate::view",
    "port::config port::tunnel",
    "port::ethdev port::queue",
    "worker::control::inject worker::control::snapshot worker::fast::replay worker::poll::output "
    "worker::poll::walk worker::slow::ct worker::slow::execute worker::slow::forget "
    "worker::slow::reject worker::step worker::tunnel::encap worker::tunnel::path_mtu "
    "worker::tunnel::waiting",
    # vswitch/dpdk
    "kernel::packet_socket kernel::rx_ring",
    # vswitch/overlay
    "neighbours::shard neighbours::table",
    # vswitch/messages
    "field matching",
    # vswitch/api
    "server::http2::cause server::http2::requests",
    # vswitch/vswitchd
    "cli log",
    # tools/agent
    "kinds::antrea_policy kinds::k8s_policy kinds::ruled",
    "resolve::doubtful resolve::world",
)


def roots():
    """The root files of all libraries and programs of the workspace."""
    argv = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]
    said = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    packages = json.loads(said)["packages"]
    return [Path(target["src_path"]) for package in packages for target in package["targets"] if {"lib", "bin"} & set(target["kind"])]


class Workspace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.crates = [rust_modules.crate(root) for root in roots()]

    def test_there_are_no_other_circles(self):
        found = [frozenset(circle) for crate in self.crates for circle in rust_modules.circles(crate)]
        left = [frozenset(circle.split()) for circle in LEFT]
        new = "\n".join(" ".join(sorted(circle)) for circle in found if circle not in left)
        gone = "\n".join(" ".join(sorted(circle)) for circle in left if circle not in found)
        self.assertEqual((new, gone), ("", ""), f"circles of imports that are not in LEFT:\n{new}\nin LEFT, and not there any more:\n{gone}")

    def test_modules_are_found(self):
        names = {module.name for crate in self.crates for module in rust_modules.everything(crate)}
        # By `mod`, in folders, and by a macro.
        for name in ("error", "commands::antrea::whose", "object::policy::compile"):
            self.assertIn(name, names)
        self.assertGreater(len(names), 500)


class Crate(unittest.TestCase):
    """Crates that are made up."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def circles(self, files):
        for name, text in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return rust_modules.circles_of(self.directory / "lib.rs")

    def test_two_modules(self):
        files = {"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B; pub struct A;", "b.rs": "pub struct B; fn f(_: super::a::A) {}"}
        self.assertEqual(self.circles(files), [["a", "b"]])

    def test_a_way_in_one_direction_is_none(self):
        files = {"lib.rs": "mod a; mod b; mod c;", "a.rs": "use crate::{b::B, c::C};", "b.rs": "use crate::c::C; pub struct B;", "c.rs": "pub struct C;"}
        self.assertEqual(self.circles(files), [])

    def test_by_way_of_a_third_one_and_of_braces(self):
        files = {"lib.rs": "mod a; mod b; mod c;", "a.rs": "use crate::{b::{self, B}, x};", "b.rs": "pub(crate) use super::c::C as B;", "c.rs": "pub struct C(crate::a::A);"}
        # `B` is what `c` calls C, and b itself is used by name.
        self.assertEqual(self.circles(files), [["a", "b", "c"]])

    def test_a_name_that_is_passed_on_counts_where_it_is_defined(self):
        files = {
            "lib.rs": "mod facade; mod user;",
            "facade.rs": "mod inner; mod other; pub use inner::Item;",
            "facade/inner.rs": "pub struct Item; use crate::user::User;",
            "facade/other.rs": "",
            "user.rs": "use crate::facade::Item; pub struct User;",
        }
        self.assertEqual(self.circles(files), [["facade::inner", "user"]])

    def test_names_of_all(self):
        files = {"lib.rs": "mod a; mod b; mod all;", "all.rs": "pub use crate::b::*;", "a.rs": "use crate::all::B; pub struct A;", "b.rs": "pub struct B(crate::a::A);"}
        self.assertEqual(self.circles(files), [["a", "b"]])

    def test_parents_and_children_may_know_each_other(self):
        files = {"lib.rs": "mod a;", "a/mod.rs": "mod b; pub struct A; fn f() { b::g(); }", "a/b.rs": "use super::A; pub fn g() {}"}
        self.assertEqual(self.circles(files), [])

    def test_a_child_and_a_sibling_of_its_parent(self):
        files = {"lib.rs": "mod a; mod c;", "a.rs": "mod b; fn f() { b::g(); }", "a/b.rs": "pub fn g() { crate::c::h(); }", "c.rs": "pub fn h() { crate::a::f(); }"}
        self.assertEqual(self.circles(files), [["a", "a::b", "c"]])

    def test_tests_comments_and_strings_do_not_count(self):
        text = """
            // use crate::b::B;
            /* crate::b::B */
            const TEXT: &str = "crate::b::B";
            const RAW: &str = r#"crate::b::"B"#;
            const QUOTE: char = '"';
            fn lifetime<'a>(_: &'a str) {}
            #[cfg(test)]
            use crate::b::B;
            #[cfg(test)]
            mod tests { use crate::b::B; fn f() { if true {} } }
            #[cfg(all(test, feature = "x"))]
            #[allow(unused)]
            fn helper(_: [u8; 2]) -> crate::b::B { loop {} }
            pub struct A;
        """
        files = {"lib.rs": "mod a; mod b;", "a.rs": text, "b.rs": "pub struct B(crate::a::A);"}
        self.assertEqual(self.circles(files), [])

    def test_what_stands_behind_code_of_tests_counts(self):
        text = "#[cfg(test)] mod tests { fn f() {} }\n#[cfg(test)] use crate::x::{Y, Z};\npub struct A { #[cfg(test)] field: u8, b: crate::b::B }"
        files = {"lib.rs": "mod a; mod b;", "a.rs": text, "b.rs": "pub struct B(crate::a::A);"}
        self.assertEqual(self.circles(files), [["a", "b"]])

    def test_modules_within_a_file_and_by_a_macro(self):
        files = {
            "lib.rs": "mod a;",
            "a.rs": "macro_rules! all { ($($name:ident)*) => { $(mod $name;)* } } all! { b c } mod d { pub struct D(crate::a::c::C); }",
            "a/b.rs": "pub struct B(crate::a::d::D);",
            "a/c.rs": "use super::b::B; pub struct C;",
        }
        self.assertEqual(self.circles(files), [["a::b", "a::c", "a::d"]])

    def test_a_module_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(FileNotFoundError, "the module b is not at"):
            self.circles({"lib.rs": "mod b;"})


if __name__ == "__main__":
    unittest.main()
