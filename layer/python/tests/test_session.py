"""Tests of rankscope.session on a real session: `RANKSCOPE_TEST_RUN=DIR python -m unittest discover`."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import rankscope
from rankscope.session import NotASession

RUN = pathlib.Path(os.environ["RANKSCOPE_TEST_RUN"])


class ReadsASession(unittest.TestCase):
    def setUp(self):
        self.session = rankscope.open(RUN)
        self.summary = json.loads((RUN / "session" / "session.json").read_text())

    def test_the_run_and_its_session_are_the_same(self):
        self.assertEqual(rankscope.open(str(RUN / "session")).summary, self.session.summary)
        self.assertEqual(self.session.summary, self.summary)
        self.assertIn(f"{len(self.summary['ranks'])} ranks", repr(self.session))

    def test_values_are_those_of_the_document(self):
        self.assertEqual(self.session.value("/steps/count"), self.summary["steps"]["count"])
        self.assertEqual(self.session.value("/steps/median_ns"), self.summary["steps"]["median_ns"]["value"])
        self.assertEqual(self.session.value("/ranks/1/name"), "rank 1")
        self.assertIsNone(self.session.reason("/steps/median_ns"))
        unknown = self.session.reason("/scorecard/total")
        self.assertTrue(unknown and self.session.value("/scorecard/total") is None)
        for pointer in ("/steps/nothing", "/ranks/99", "/ranks/-1", "/steps/count/value"):
            with self.assertRaisesRegex(KeyError, pointer):
                self.session.value(pointer)

    def test_findings_and_ranks_have_their_fields(self):
        self.assertEqual([finding.kind for finding in self.session.findings], [f["kind"] for f in self.summary["findings"]])
        late = next(finding for finding in self.session.findings if finding.kind == "late-rank")
        self.assertEqual(late.ranks, [1])
        self.assertGreater(late.cost_ns, 0)
        self.assertEqual([rank.number for rank in self.session.ranks], list(range(len(self.summary["ranks"]))))

    def test_tables_have_the_rows_of_all_ranks(self):
        operations = self.session.operations
        self.assertEqual(operations.num_rows, self.summary["totals"]["operations"])
        self.assertEqual(set(operations["rank"].to_pylist()), set(range(len(self.summary["ranks"]))))
        for row in self.summary["breakdown"]:
            steps = self.session.table("steps", ranks=[row["rank"]], columns=["exposed_communication_ns", "rank"])
            self.assertEqual(steps.column_names, ["exposed_communication_ns", "rank"])
            self.assertEqual(sum(steps["exposed_communication_ns"].to_pylist()), row["exposed_communication_ns"])
        self.assertEqual(self.session.instances.num_rows, len(self.session.table("instances", columns=["instance"])))
        self.assertNotIn("rank", self.session.instances.column_names)
        for name in self.session.tables:
            self.session.table(name)

    def test_what_does_not_exist_is_an_error_that_says_so(self):
        with self.assertRaisesRegex(KeyError, "no table nothing; it has .*operations"):
            self.session.table("nothing")
        with self.assertRaisesRegex(ValueError, "no file for each rank"):
            self.session.table("instances", ranks=[0])
        with self.assertRaisesRegex(KeyError, "of these ranks"):
            self.session.table("steps", ranks=[99])
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            with self.assertRaisesRegex(NotASession, "no session"):
                rankscope.open(folder)
            with self.assertRaisesRegex(NotASession, "no directory"):
                rankscope.open(folder / "missing")
            (folder / "one.rslog").touch()
            with self.assertRaisesRegex(NotASession, "run `rankscope merge"):
                rankscope.open(folder)
            period = folder / "session" / "periods" / "20261128T170000Z"
            period.mkdir(parents=True)
            (period / "session.json").touch()
            with self.assertRaisesRegex(NotASession, "1 periods: open one, such as .*20261128T170000Z"):
                rankscope.open(folder)
            file = folder / "session.json"
            for text, message in (("{", "merge the recording again"), ("[]", "no version"), ('{"version": 99}', "version 99")):
                file.write_text(text)
                with self.assertRaisesRegex(NotASession, message):
                    rankscope.open(folder)

    def test_frames_have_the_values_of_the_tables(self):
        waits = self.session.pandas("steps").groupby("rank").exposed_wait_ns.sum()
        expected = {row["rank"]: row["exposed_wait_ns"] for row in self.summary["breakdown"]}
        self.assertEqual(waits.to_dict(), expected)
        frame = self.session.pandas("operations")
        self.assertEqual(str(frame.dtypes["leave_ns"]), "Int64")
        polars = self.session.polars("operations")
        self.assertEqual(polars["bytes"].sum(), sum(value or 0 for value in self.session.operations["bytes"].to_pylist()))

    def test_pictures_are_drawn(self):
        axes = self.session.step_map()
        image = axes.get_images()[0].get_array()
        steps = self.session.table("steps", columns=["rank", "step", "start_ns", "end_ns"])
        self.assertEqual(image.shape, (len(self.summary["ranks"]), len(set(steps["step"].to_pylist()))))
        first = steps.slice(0, 1).to_pylist()[0]
        self.assertAlmostEqual(float(image[0, 0]), (first["end_ns"] - first["start_ns"]) / 1e6)
        self.assertIs(self.session.step_map("exposed_wait_ns", ax=axes), axes)
        page = self.session._repr_html_()
        self.assertIn(self.session.findings[0].title.split("<")[0].split("&")[0].split("'")[0], page)
        self.assertIn("rank 1", page)

    def test_texts_of_a_session_are_escaped(self):
        self.session.summary["ranks"][0]["name"] = "<script>"
        self.assertNotIn("<script>", self.session._repr_html_())

    def test_a_training_program_imports_none_of_it(self):
        code = "import sys, rankscope; print([m for m in ('json', 'pyarrow', 'rankscope.session') if m in sys.modules])"
        shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        self.assertEqual(shown.strip(), "[]")


if __name__ == "__main__":
    unittest.main()
