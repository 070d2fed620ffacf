from nftop.render.base.last_results import LastResults


def test_two_results_are_kept_by_the_identity_of_their_arguments() -> None:
    calls: list[object] = []

    def work(of: object, number: int) -> object:
        calls.append(of)
        return [of, number]

    kept = LastResults(work)
    one, other, third = [1], [1], [1]
    first = kept(one, 1000)
    assert kept(one, int("1000")) is first
    second = kept(other, 1000)
    assert second is not first
    assert kept(one, 1000) is first
    assert kept(other, 1000) is second
    kept(third, 1000)
    assert kept(other, 1000) is second
    assert len(calls) == 3
    assert kept(one, 1000) is not first
    assert kept(one, 1001) == [one, 1001]


def test_the_same_value_of_another_type_is_another() -> None:
    kept = LastResults(lambda value: [value])
    assert kept(1) is not kept(True)
    assert kept((1, 2)) is kept((1, 2))
