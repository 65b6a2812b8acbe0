"""A slide is a straight line; a dictionary gives all weight to one key."""

import torch

from annotated.analysis.look_up import hard_weights, slide


def test_a_slide_goes_straight_from_one_query_to_the_other():
    start, end = torch.tensor([1.0, 5.0, 3.0]), torch.tensor([2.0, 1.0, 3.0])
    queries = slide(start, end, 5)
    assert torch.equal(queries[0], start) and torch.equal(queries[-1], end)
    torch.testing.assert_close(queries[2], (start + end) / 2)
    torch.testing.assert_close(queries.diff(dim=0), ((end - start) / 4).expand(4, 3))


def test_hard_weights_give_everything_to_the_best_key():
    scores = torch.randn(31, 5, generator=torch.Generator().manual_seed(0))
    weights = hard_weights(scores)
    assert torch.equal(weights.sum(1), torch.ones(31))
    assert torch.equal(weights.argmax(1), scores.argmax(1)) and weights.unique().tolist() == [0, 1]
    torch.testing.assert_close(weights, (1e5 * scores).softmax(-1), atol=1e-3, rtol=0)
