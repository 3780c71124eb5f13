"""The words for what is shown to be worse, and for whose comments it comes from."""

from support.made import loss as cell

from biasgate.tasks.wording import describe_losses


def test_a_cause_is_named_with_its_largest_loss_and_others_with_the_cause():
    shown = [
        cell("muslim"),
        *(cell("muslim", metric=x, at_least=0.05) for x in ("subgroup_auc", "negative_aeg")),
        cell("jewish", "muslim", at_least=0.04),
        cell("christian", "muslim", at_least=0.03),
    ]
    assert describe_losses(shown) == (
        "Significantly worse than the champion: muslim (bpsn_auc by at least 0.076, 2 more "
        "numbers). Also jewish and christian, but not without comments that mention muslim."
    )


def test_several_causes_are_named_and_who_shares_the_comments_of_which():
    shown = [
        cell("muslim"),
        cell("black", "muslim", "white"),
        cell("black", "muslim", metric="bnsp_auc"),
        cell("white"),
        cell("jewish", "muslim"),
    ]
    assert describe_losses(shown, "old") == (
        "Significantly worse than old: muslim (bpsn_auc by at least 0.076); white (bpsn_auc by at "
        "least 0.076). Also black, but not without comments that mention muslim or white. Also "
        "jewish, but not without comments that mention muslim."
    )


def test_of_many_the_first_are_named_and_the_others_counted():
    causes = [cell(name) for name in "abcde"]
    others = [cell(name, "a") for name in "vwxyz"]
    told = describe_losses([*causes, *others])
    assert "c (bpsn_auc by at least 0.076); and 2 more." in told
    assert "Also v, w, x and 2 more, but not without comments that mention a." in told


def test_an_identity_with_a_loss_of_its_own_is_not_named_again():
    assert (
        describe_losses([cell("a"), cell("b", metric="bnsp_auc"), cell("b", "a")]).count("b (") == 1
    )
    assert "Also" not in describe_losses([cell("a"), cell("b", metric="bnsp_auc"), cell("b", "a")])


def test_where_nothing_is_shown_the_words_say_so():
    assert describe_losses([], "old") == "No identity is significantly worse than under old."


def test_names_are_escaped():
    assert "a\\u202e (bpsn_auc" in describe_losses([cell("a\u202e")])
