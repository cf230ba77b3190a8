"""The renderer of the chart's templates."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.kube.chart import Template, merged  # noqa: E402


class Renderer(unittest.TestCase):
    def render(self, text, **values):
        return Template("t", text).render({"Values": values, "Release": {"Namespace": "ns"}, "Chart": {"AppVersion": "1"}})

    def test_language(self):
        for text, values, said in (
            ("{{ .Values.a.b }}-{{ .Release.Namespace }}", {"a": {"b": 1}}, "1-ns"),
            ("a: {{ toJson .Values.a }}", {"a": {"y": 1, "x": [True]}}, 'a: {"x": [true], "y": 1}'),
            ("a: {{ .Values.a | quote }}", {"a": 7}, 'a: "7"'),
            ("a:{{ .Values.a | toYaml | nindent 2 }}", {"a": {"x": 1, "b": {"c": 2}}}, "a:\n  b:\n    c: 2\n  x: 1"),
            ("x\n{{- if .Values.a }}\ny\n{{- else }}\nn\n{{- end }}\nz", {"a": False}, "x\nn\nz"),
            ("{{- range $k, $v := .Values.a }}{{ $k }}={{ $v }};{{- end }}", {"a": {"q": 1, "p": "t"}}, "p=t;q=1;"),
            ("{{ .Values.a }}", {"a": True}, "true"),
        ):
            self.assertEqual(self.render(text, **values), said, text)

    def test_what_it_does_not_know_is_an_error(self):
        for text in (
            "{{ .Values.none }}",
            "{{ .Values.a | trunc 3 }}",
            "{{ if .Values.a }}",
            "{{ end }}",
            "{{ .Values.a",
            "{{ .Values.map }}",
        ):
            with self.subTest(text), self.assertRaises(machine.Failure):
                self.render(text, a=1, map={})

    def test_values_go_on_top_of_each_other(self):
        self.assertEqual(merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"c": 3}, "d": []}), {"a": {"b": 1, "c": 3}, "d": []})


if __name__ == "__main__":
    unittest.main()
