"""The manifests below deploy/: made of their sources, right by the schemas of their kinds, with the
rights that the agent needs and no others."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.kube import crds  # noqa: E402
from vsw.kube.chart import Chart, merged  # noqa: E402
from vsw.kube.node_config import NODE_CONFIG_SPEC  # noqa: E402
from vsw.kube.objects import CHART, DEPLOY, MANIFESTS, containers, documents, find, rendered, wrong  # noqa: E402
from vsw.kube.validate import problems  # noqa: E402

# Values that turn on what the default ones leave out.
OTHERS = {
    "switch": {
        "cores": 4,
        "hugepagesMiB": 0,
        "vfio": True,
        "extraResources": {"intel.com/nic": "1"},
        "extraConfig": '[[bridge]]\nname = "br-ex"\n',
        "perNode": {"n1": "[dpdk]\nmemory_mb = 64\n"},
    },
    "agent": {"apiServer": {"host": "192.0.2.1", "port": 6443}, "flowExport": {"a": "grpc:192.0.2.9:14739"}, "flowExportSecret": "flows"},
    "devicePlugin": {"devices": 0},
    "security": {"appArmorField": False},
}


class Made(unittest.TestCase):
    maxDiff = None

    def test_what_is_committed_is_what_the_sources_make(self):
        done = subprocess.run([ROOT / "tools" / "manifests", "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_nothing_else_is_there(self):
        done = subprocess.run(["git", "ls-files", "deploy"], cwd=ROOT, check=True, capture_output=True, text=True)
        there = {name.removeprefix("deploy/") for name in done.stdout.splitlines() if (ROOT / name).exists()}
        with_head = {
            name for name in there if name.endswith(".yaml") and (DEPLOY / name).read_text().startswith("# Made by tools/manifests.")
        }
        sources = {name for name in there if name.startswith(("chart/vswitch/templates/", "debian/", "image/", "monitoring/"))}
        sources |= {f"chart/vswitch/{name}" for name in ("Chart.yaml", "values.yaml", "values.schema.json")}
        self.assertEqual(there - with_head, sources)

    def test_the_version_is_the_project_s(self):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        chart = Chart(CHART)
        self.assertEqual((chart.about["version"], chart.about["appVersion"], chart.values["image"]["tag"]), (version,) * 3)

    @unittest.skipUnless(shutil.which("kubectl"), "no kubectl")
    def test_kustomize_makes_the_same_objects(self):
        made = documents(machine.output(["kubectl", "kustomize", DEPLOY / "kustomize" / "base"]))
        by_name = {(each["kind"], each["metadata"]["name"]): each for each in made}
        self.assertEqual(by_name, {(each["kind"], each["metadata"]["name"]): each for each in documents(MANIFESTS.read_text())})

    @unittest.skipUnless(shutil.which("helm"), "no helm")
    def test_helm_renders_the_same_objects(self):
        machine.output(["helm", "lint", "--strict", CHART])
        for values in ({}, OTHERS):
            with self.subTest(values), tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(values, file)
                file.flush()
                made = documents(
                    machine.output(["helm", "template", "vswitch", CHART, "--namespace", "kube-system", "--values", file.name])
                )
                names = {(each["kind"], each["metadata"]["name"]): each for each in made}
                self.assertEqual(names, {(each["kind"], each["metadata"]["name"]): each for each in rendered(**values)})


class Schemas(unittest.TestCase):
    maxDiff = None

    def test_every_object_is_right(self):
        for values in ({}, OTHERS):
            with self.subTest(values):
                self.assertEqual(wrong(rendered(**values)), [])
        for file in [MANIFESTS, *(DEPLOY / "crds").glob("*.yaml")]:
            self.assertEqual(wrong(documents(file.read_text())), [], file.name)

    def test_what_is_wrong_is_found(self):
        def changed(kind, name, *path, value):
            objects = documents(MANIFESTS.read_text())
            *way, last = path
            inner = find(objects, kind, name)
            for step in way:
                inner = inner[step]
            inner[last] = value
            return wrong(objects)

        pod = ("spec", "template", "spec")
        for change, said in (
            (("DaemonSet", "vswitch", *pod, "hostNetwrok", True), "hostNetwrok is unknown"),
            (("DaemonSet", "vswitch", *pod, "containers", 0, "securityContext", "privileged", True), "privileged: True"),
            (("DaemonSet", "vswitch", *pod, "containers", 0, "securityContext", "capabilities", "add", ["SYS_MODULE"]), "SYS_MODULE"),
            (("ClusterRole", "vswitch-agent", "rules", 0, "verbs", ["delete"]), "delete"),
            (("ConfigMap", "vswitch", "data", "a", 1), "1 is no string"),
            (("CustomResourceDefinition", "nodeconfigs.vswitch.io", "spec", "scope", "All"), "'All'"),
        ):
            *way, value = change
            found = changed(*way, value=value)
            self.assertEqual(len(found), 1, found)
            self.assertIn(said, found[0])

    def test_the_node_config_is_right(self):
        for values in ({}, OTHERS):
            config = yaml.safe_load(find(rendered(**values), "ConfigMap", "vswitch-agent")["data"]["node-config.yaml"])
            self.assertEqual(config["metadata"], {"name": "default"})
            self.assertEqual(wrong([config]), [])
            for field, value, said in (
                ("trafficmode", "Encap", "trafficmode is unknown"),
                ("trafficMode", "encap", "'encap'"),
                ("gateway", {"mac": "1"}, "match"),
            ):
                found = wrong([{**config, "spec": {**config["spec"], field: value}}])
                self.assertEqual(len(found), 1, found)
                self.assertIn(said, found[0])

    def test_values_fit_their_schema(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        chart = Chart(CHART)
        for values in ({}, OTHERS):
            self.assertEqual(list(problems(merged(chart.values, values), schema)), [])
        for values, said in (
            ({"image": {"tga": "1"}}, "tga is unknown"),
            ({"switch": {"cores": 1}}, "out of range"),
            ({"switch": {"cores": "2"}}, "is no integer"),
            ({"switch": {"hugepagesMiB": 3}}, "none of the choices"),
            ({"switch": {"perNode": {"n1": 1}}}, "is no string"),
            ({"agent": {"apiServer": {"port": 0}}}, "out of range"),
            ({"agent": {"flowExport": {"a": "udp:h:1"}}}, "does not match"),
            ({"cni": {"binDir": "opt"}}, "does not match"),
            ({"devicePlugin": {"devices": 1025}}, "out of range"),
            ({"switches": {}}, "switches is unknown"),
        ):
            found = list(problems(merged(chart.values, values), schema))
            self.assertEqual(len(found), 1, (values, found))
            self.assertIn(said, found[0])

    def test_values_that_pages_name_are_there(self):
        values, named = Chart(CHART).values, set()
        for page in ("kubernetes", "kubevirt", "dpdk-pod", "flow-export"):
            text = (ROOT / "docs" / f"{page}.md").read_text()
            named |= set(re.findall(r"(?:`|--set )((?:image|switch|agent|cni|devicePlugin|nodeConfig|security)\.[\w.]+)", text))
        self.assertGreater(len(named), 5)
        for name in named:
            inner = values
            for step in name.split("."):
                self.assertIn(step, inner, name)
                inner = inner[step]

    def test_definitions_are_structural_and_for_old_servers(self):
        """What apiextensions.k8s.io/v1 of 1.20 asks for: a type at each level, no CEL."""

        def check(schema, path):
            self.assertTrue("type" in schema or schema.get("x-kubernetes-int-or-string"), path)
            self.assertNotIn("x-kubernetes-validations", schema, path)
            for name, field in schema.get("properties", {}).items():
                check(field, f"{path}.{name}")
            for name in ("items", "additionalProperties"):
                if name in schema:
                    check(schema[name], f"{path}.{name}")

        for definition in (each for file in crds.FILES.values() for each in file):
            spec, meta = definition["spec"], definition["metadata"]
            self.assertEqual(meta["name"], f"{spec['names']['plural']}.{spec['group']}")
            if spec["group"].endswith(".k8s.io"):
                self.assertIn("api-approved.kubernetes.io", meta["annotations"])
            check(spec["versions"][0]["schema"]["openAPIV3Schema"], spec["names"]["kind"])

    def test_node_config_has_the_agent_s_fields(self):
        """Each struct of the agent's NodeConfig has an object in the schema, with the same
        fields."""
        text = (ROOT / "tools" / "agent" / "src" / "kinds" / "node_config.rs").read_text()
        fields = {name: body for name, body in re.findall(r"pub struct (\w+) \{\n(.*?)\n\}", text, re.S)}
        # Not of antrea.v1.NodeConfig: which Nodes an object is about, and their addresses.
        more = {"nodeSelector", "transportInterfaceCIDRs"}

        def of_struct(name):
            found = {}
            for line_before, field, of in re.findall(r"((?:    #\[[^\n]*\]\n)*)    pub (\w+): ([^\n]*),(?=\n|$)", fields[name]):
                renamed = re.search(r'rename = "(\w+)"', line_before)
                first, *others = field.split("_")
                found[renamed[1] if renamed else first + "".join(word.capitalize() for word in others)] = of
            return found

        def compare(struct, schema):
            here = of_struct(struct)
            self.assertEqual(set(here) - more, set(schema["properties"]) - more, struct)
            for field, of in here.items():
                inner = re.sub(r"Option|Vec|[<>]", "", of)
                below = schema["properties"].get(field)
                if inner in fields:
                    compare(inner, below.get("items", below))

        compare("Spec", NODE_CONFIG_SPEC)


class Rights(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.objects = documents(MANIFESTS.read_text())

    def rules(self, *names):
        """(group, resource, verb) of roles."""
        roles = [each for each in self.objects if each["kind"] in ("ClusterRole", "Role")]
        return {
            (group, resource, verb)
            for role in roles
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def test_the_agent_may_read_what_it_reads_and_nothing_else(self):
        read = {("", each) for each in ("namespaces", "nodes", "pods", "services")}
        read |= {
            ("discovery.k8s.io", "endpointslices"),
            ("networking.k8s.io", "networkpolicies"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
        }
        read |= {(each["spec"]["group"], each["spec"]["names"]["plural"]) for file in crds.FILES.values() for each in file}
        # Reports of other agents. (The agent's own tests count the rest: what it gets and writes.)
        read.add(("coordination.k8s.io", "leases"))
        for verb in ("list", "watch"):
            self.assertEqual({(group, resource) for group, resource, each in self.rules() if each == verb}, read, verb)

    def test_the_agent_may_list_what_it_follows(self):
        """The table of kinds of the agent's source."""
        table = ROOT / "tools" / "agent" / "src" / "source" / "cluster" / "table.rs"
        text = table.read_text()
        groups = dict(re.findall(r'const (\w+): &str = "([\w.]+)"', text))
        followed = re.findall(r'Kind::new\(("[\w.]*"|\w+), [^\n]*\["\w+", "(\w+)"\]\)', text)
        self.assertGreater(len(followed), 15)
        for group, plural in followed:
            group = group.strip('"') if group.startswith('"') else groups[group]
            for verb in ("list", "watch"):
                self.assertIn((group, plural, verb), self.rules())

    def test_the_agent_may_read_what_its_page_names(self):
        """The table of kinds in docs/agent.md."""
        may = {group for group, _, verb in self.rules() if verb == "list"}
        resources = {resource for _, resource, verb in self.rules() if verb == "list"}
        rows = re.findall(r"^\| ([A-Z][\w, ]*) \| ((?:[a-z.0-9]+/)?v[0-9]\w*) \|$", (ROOT / "docs" / "agent.md").read_text(), re.M)
        self.assertGreater(len(rows), 5)
        for names, version in rows:
            group = version.rpartition("/")[0].replace("vswitch", "vswitch.io").replace(".io.io", ".io")
            self.assertIn(group, may)
            for name in names.split(", "):
                plural = re.sub(r"y$", "ie", name.lower()) + ("es" if name.endswith("s") else "s")
                self.assertIn(plural, resources, name)

    def test_what_the_agent_may_write(self):
        written = {each for each in self.rules() if each[2] not in ("get", "list", "watch")}
        admin = ("clusternetworkpolicies", "adminnetworkpolicies", "baselineadminnetworkpolicies")
        self.assertEqual(
            written,
            {
                ("", "nodes", "patch"),
                ("", "nodes/status", "patch"),
                ("", "events", "create"),
                ("", "events", "patch"),
                ("crd.antrea.io", "egresses", "patch"),
                *(("crd.antrea.io", f"{plural}/status", "patch") for plural in ("traceflows", "packetcaptures", "egresses", "externalippools")),
                *(("crd.antrea.io", f"{plural}/status", "patch") for plural in ("clustergroups", "groups")),
                *(("crd.antrea.io", f"{plural}/status", "patch") for plural in ("networkpolicies", "clusternetworkpolicies")),
                *(("policy.networking.k8s.io", f"{plural}/status", "patch") for plural in admin),
                ("coordination.k8s.io", "leases", "create"),
                ("coordination.k8s.io", "leases", "update"),
            },
        )

    def test_node_port_local_adds_the_right_to_patch_pods(self):
        before = self.rules()
        on = Chart(CHART).render("rbac.yaml", "kube-system", nodeConfig={"nodePortLocal": {"enable": True}})
        self.objects = documents(on)
        self.assertEqual(self.rules() - before, {("", "pods", "patch")})
        self.assertEqual(before - self.rules(), set())

    def test_leases_are_of_one_namespace(self):
        for role in (each for each in self.objects if each["kind"] == "ClusterRole"):
            self.assertNotIn("leases", [resource for rule in role["rules"] for resource in rule["resources"]])

    def test_no_right_is_a_wildcard_or_about_secrets(self):
        for group, resource, verb in self.rules():
            self.assertNotIn("*", (group, resource, verb))
            self.assertNotRegex(resource, "secret|token|configmap")

    def test_the_switch_has_no_account_of_rights(self):
        spec = find(self.objects, "DaemonSet", "vswitch")["spec"]["template"]["spec"]
        self.assertIs(spec["automountServiceAccountToken"], False)
        bound = [subject["name"] for each in self.objects if each["kind"].endswith("Binding") for subject in each["subjects"]]
        self.assertNotIn(spec["serviceAccountName"], bound)


class Pods(unittest.TestCase):
    maxDiff = None

    def test_no_container_is_privileged_or_may_write_its_root(self):
        for values in ({}, OTHERS):
            for spec, container in containers(rendered(**values)):
                security = container["securityContext"]
                self.assertIs(security["privileged"], False, container["name"])
                self.assertIs(security["readOnlyRootFilesystem"], True, container["name"])
                self.assertEqual(security["capabilities"]["drop"], ["ALL"], container["name"])
                self.assertNotIn("hostPID", spec)

    def test_the_switch_is_guaranteed_with_whole_cores(self):
        for values in ({}, OTHERS):
            spec = find(rendered(**values), "DaemonSet", "vswitch")["spec"]["template"]["spec"]
            self.assertNotIn("initContainers", spec)
            for container in spec["containers"]:
                resources = container["resources"]
                self.assertEqual(resources["requests"], resources["limits"])
                self.assertIsInstance(resources["limits"]["cpu"], int)
                self.assertIn("memory", resources["limits"])

    def test_mounts_have_volumes(self):
        for values in ({}, OTHERS):
            for each in (each for each in rendered(**values) if each["kind"] == "DaemonSet"):
                spec = each["spec"]["template"]["spec"]
                used = {
                    mount["name"]
                    for container in spec["containers"] + spec.get("initContainers", [])
                    for mount in container.get("volumeMounts", [])
                }
                self.assertEqual(used, {volume["name"] for volume in spec["volumes"]}, each["metadata"]["name"])

    def test_upgrades(self):
        objects = rendered()
        switch, agent = (find(objects, "DaemonSet", name)["spec"] for name in ("vswitch", "vswitch-agent"))
        self.assertEqual((switch["updateStrategy"]["type"], agent["updateStrategy"]["type"]), ("OnDelete", "RollingUpdate"))
        self.assertEqual(switch["template"]["spec"]["terminationGracePeriodSeconds"], 60)

    def test_arguments_of_the_agent_are_those_of_its_command_line(self):
        text = "".join(file.read_text() for file in (ROOT / "tools" / "agent" / "src").glob("cli*.rs"))
        there = set()
        for words, field in re.findall(r"#\[arg\((.*?)\)\]\n(?:    #[^\n]*\n)*\s*pub (\w+):", text, re.S):
            if re.search(r"\blong\b", words):
                named = re.search(r'long = "([\w-]+)"', words)
                there.add(f"--{named[1] if named else field.replace('_', '-')}")
        self.assertIn("--node", there)
        used = {word.partition("=")[0] for _, container in containers(rendered()) for word in container["args"] if word.startswith("--")}
        self.assertGreater(len(used), 4)
        self.assertEqual(used - there, set())

    def test_probes_ask_what_the_programs_answer(self):
        verbs = (ROOT / "docs" / "vsctl.md").read_text()
        for _, container in containers(rendered()):
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                probe = container.get(name, {})
                if "exec" in probe:
                    program, verb = probe["exec"]["command"]
                    self.assertEqual(program, "vsctl")
                    self.assertIn(f"`{verb}`", verbs)
                elif probe:
                    address = f"--health={probe['httpGet']['host']}:{probe['httpGet']['port']}"
                    self.assertIn(address, container["args"])
                    self.assertIn(probe["httpGet"]["path"], ("/livez", "/readyz"))

    def test_the_node_config_and_the_switch_name_the_same_ports(self):
        for values in ({}, OTHERS):
            objects = rendered(**values)
            config = tomllib.loads(find(objects, "ConfigMap", "vswitch")["data"]["vswitchd.toml"])
            spec = yaml.safe_load(find(objects, "ConfigMap", "vswitch-agent")["data"]["node-config.yaml"])["spec"]
            bridge = config["bridge"][0]
            self.assertEqual(
                (bridge["name"], bridge["fail_mode"], bridge["port"][0]["name"]), (spec["bridge"], "secure", spec["gateway"]["port"])
            )
            self.assertEqual(config["dpdk"]["worker_cores"], [])
        self.assertEqual(config["bridge"][1], {"name": "br-ex"})
        self.assertIs(config["dpdk"]["hugepages"], False)
        self.assertEqual(tomllib.loads(find(objects, "ConfigMap", "vswitch")["data"]["n1.toml"]), {"dpdk": {"memory_mb": 64}})


if __name__ == "__main__":
    unittest.main()
