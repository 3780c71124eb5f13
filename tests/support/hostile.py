"""Names as an attacker would choose them."""

SCRIPT, IMAGE = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
OVERRIDE, HEBREW = "\u202egnp.exe", "עברית"
LINKS = ["[a](javascript:alert(1))", "![a](http://127.0.0.1:9/a.png)", "<http://127.0.0.1:9/>"]
FORMULAS = ["=cmd()", "+cmd|'/C calc'!A0", "-1+cmd|'/C calc'!A0", "@SUM(A1)"]
MARKUP = ["a|b", "**a** _b_", "`a", "# a", "&lt;a&gt;", "a\\|b", "~~a~~", "</td></tr></table>"]
MATHS = [r"$\frac{a$", "$x^2$"]
NAMES = [SCRIPT, IMAGE, *LINKS, *FORMULAS, *MARKUP, *MATHS, OVERRIDE, HEBREW]
