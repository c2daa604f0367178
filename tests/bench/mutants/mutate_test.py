#!/usr/bin/env python3
"""The mutants of a few lines, written down by hand, operator by operator.

usage: mutate_test.py
"""

import unittest

import mutate

KERNEL = """\
#include <cmath>
// a + b in a comment, "a < b" in a string
float dot(const float* a, const float* b, int n, int stride) {
    float sum = 0, most = -INFINITY;
    for (int i = 0; i < n; ++i) sum += a[i * stride + 1] * b[i];
    most = std::max(most, sum);
    TILESCOPE_VALUE(s, 0, n, 0, sum);
    return float(most > 2.5f && sum != most) << 1;
}
void other() { done(); }
"""


def drawn(operator, text=KERNEL, functions=("dot",)):
    """[(line, before, after)] of the operator."""
    edits = mutate.edits_of(mutate.Source(text), functions, [operator])
    return [tuple(mutate.described(text, 0, edit)[key] for key in ("line", "before", "after")) for edit in edits]


class Mutants(unittest.TestCase):
    def test_relations(self):
        self.assertEqual(drawn("relational"), [(5, "<", "<="), (5, "<", ">"), (8, ">", "<"), (8, ">", ">="), (8, "!=", "==")])

    def test_arithmetic(self):
        self.assertEqual(drawn("arithmetic"), [(4, "-", ""), (5, "++", "--"), (5, "+=", "-="), (5, "+=", "="), (5, "*", "/"), (5, "+", "-"),
                                               (5, "*", "/")])

    def test_bits_and_extremum(self):
        self.assertEqual(drawn("bits"), [(8, "&&", "||"), (8, "<<", ">>")])
        self.assertEqual(drawn("extremum"), [(6, "max", "min")])

    def test_constants(self):
        self.assertEqual(drawn("constant"), [(4, "0", "1"), (5, "0", "1"), (5, "1", "0"), (5, "1", "2"), (7, "0", "1"), (7, "0", "1"),
                                             (8, "2.5f", "(0.5f * 2.5f)"), (8, "2.5f", "(2.0f * 2.5f)"), (8, "1", "0"), (8, "1", "2")])

    def test_variables_of_the_same_type(self):
        self.assertEqual([one for one in drawn("variable") if one[0] == 6], [(6, "most", "sum"), (6, "most", "sum"), (6, "sum", "most")])
        in_index = [one for one in drawn("variable") if one[0] == 5 and one[1] == "stride"]
        self.assertEqual(in_index, [(5, "stride", "i"), (5, "stride", "n")])
        self.assertIn((5, "a", "b"), drawn("variable"))

    def test_no_variable_is_read_in_what_it_begins_with(self):
        text = "int f(int n, int m) { const int a = g(n, m); return a; }"
        self.assertEqual(drawn("variable", text, ("f",)), [(1, "n", "m"), (1, "m", "n"), (1, "a", "m"), (1, "a", "n")])

    def test_together_each_has_a_namespace(self):
        text = "#include <cmath>\nint f(int n) { return n + 1; }\n"
        edits = mutate.edits_of(mutate.Source(text), ["f"])
        plus = {"operator": "arithmetic", "line": 2, "column": 25, "before": "+", "after": "-"}
        one = {"operator": "constant", "line": 2, "column": 27, "before": "1", "after": "0"}
        self.assertEqual(mutate.together(text, edits, [plus, one]),
                         "#include <cmath>\nnamespace as_it_is {\nint f(int n) { return n + 1; }\n}\n"
                         "namespace mutant_0 {\nint f(int n) { return n - 1; }\n}\n"
                         "namespace mutant_1 {\nint f(int n) { return n + 0; }\n}\n"
                         "#define MUTANTS(name) mutant_0::name, mutant_1::name\n")
        with self.assertRaisesRegex(KeyError, "no such mutant any more"):
            mutate.together(text, edits, [{**plus, "line": 3}])

    def test_indices(self):
        self.assertEqual(drawn("index"), [(5, "i * stride +", ""), (5, "i * stride + 1", "0"), (5, "+ 1", ""), (5, "i", "0")])

    def test_statements(self):
        self.assertEqual(drawn("statement"), [(5, "sum += a[i * stride + 1] * b[i]", ""), (6, "most = std::max(most, sum)", ""),
                                              (7, "TILESCOPE_VALUE(s, 0, n, 0, sum)", "")])

    def test_bounds(self):
        self.assertEqual(drawn("bound"), [(5, "n", "n + 1"), (5, "n", "n - 1")])

    def test_casts(self):
        self.assertEqual(drawn("cast"), [(4, "-INFINITY", "static_cast<int>(-INFINITY)"),
                                         (6, "std::max(most, sum)", "static_cast<int>(std::max(most, sum))"),
                                         (8, "float", "")])

    def test_lines_of_hooks_are_told(self):
        edits = mutate.edits_of(mutate.Source(KERNEL), ["dot"])
        lines = {one["line"] for one in (mutate.described(KERNEL, 0, edit) for edit in edits) if one["hook"]}
        self.assertEqual(lines, {7})

    def test_each_differs_in_its_place_alone(self):
        for edit in mutate.edits_of(mutate.Source(KERNEL)):
            text = mutate.mutated(KERNEL, edit)
            self.assertNotEqual(text, KERNEL)
            self.assertTrue(text.startswith(KERNEL[:edit.at]) and text.endswith(KERNEL[edit.end:]), edit)

    def test_functions_bound_the_text(self):
        self.assertEqual(drawn("statement", functions=("other",)), [(10, "done()", "")])
        self.assertEqual(len(drawn("statement", functions=None)), 4)


if __name__ == "__main__":
    unittest.main()
