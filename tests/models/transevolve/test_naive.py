"""The formula that the layers are held against, itself held against scalars."""

import math

import torch

from fairseq_odeformers.models.transevolve import naive


def test_attention_scalar_by_scalar(float64):
    """softmax of A0 + A1 T^T + T A2 + A3 (T . T) for each query, key and head (Eqs. 6, 7, 9)."""
    torch.manual_seed(0)
    d, d_time, heads, depth, total_depth = 6, 4, 2, 2, 3
    x, y = torch.randn(1, 3, d), torch.randn(1, 5, d)
    w_q, w_k = torch.randn(d, d + d_time), torch.randn(d, d + d_time)
    w_q_tilde, w_k_tilde = torch.randn(d_time, d + d_time), torch.randn(d_time, d + d_time)
    w = torch.randn(d_time)
    scores = naive.initial_scores(x, y, w_q, w_k, w_q_tilde, w_k_tilde, heads)
    found = naive.attention(scores, naive.time_map(w, depth, total_depth))

    period = d_time * total_depth / (2 * math.pi)
    time = [w[0] * math.sin(depth / period), w[1] * math.sin(2 * depth / period)]
    time += [w[2] * math.cos(depth / period), w[3] * math.cos(2 * depth / period)]
    q, k = x[0] @ w_q, y[0] @ w_k
    for head in range(heads):
        features = range(head * 5, head * 5 + 5)  # of d + d' = 10
        times = range(head * 2, head * 2 + 2)  # of d' = 4
        for i in range(3):
            row = []
            for j in range(5):
                score = sum(q[i, f] * k[j, f] for f in features) / math.sqrt(5)
                for t in times:
                    a1, a2 = q[i] @ w_k_tilde[t], k[j] @ w_q_tilde[t]
                    score += (
                        a1 * time[t] + a2 * time[t] + w_q_tilde[t] @ w_k_tilde[t] * time[t] ** 2
                    )
                row.append(score)
            expected = torch.stack(row).softmax(0)
            assert torch.allclose(found[0, head, i], expected, atol=1e-12)


def test_attended_values_go_head_by_head():
    weights = torch.tensor([[[[0.0, 1.0]], [[1.0, 0.0]]]])  # one query; the heads look elsewhere
    values = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    assert naive.attend(weights, values).tolist() == [[[5.0, 6.0, 3.0, 4.0]]]


def test_random_feed_forward_entry_by_entry(float64):
    """relu(x U S V + B) with the first columns of U and the first rows of V, for d < d_ff."""
    torch.manual_seed(0)
    d, inner, depth, total_depth = 4, 6, 2, 3
    draws = [torch.randn(size, size // 2) * size for size in (d, inner, inner, d)]
    u1, v1, u2, v2 = (naive.rotation(w, depth, total_depth) for w in draws)
    for matrix, w in ((u1, draws[0]), (v1, draws[1])):
        size = len(matrix)
        for i in range(size):
            for column in range(size):
                wave = math.sin if column < size // 2 else math.cos
                j = column % (size // 2) + 1
                phase = w[i, j - 1] * j * depth / (size * total_depth / (2 * math.pi))
                assert abs(matrix[i, column] - wave(phase) / math.sqrt(size)) < 1e-9
    s1, s2, b1, b2, x = (torch.randn(n) for n in (d, d, inner, d, d))
    found = naive.random_feed_forward(x, (u1, s1, v1, b1), (u2, s2, v2, b2))
    hidden = [
        max(0, sum(x[a] * u1[a, r] * s1[r] * v1[r, c] for a in range(d) for r in range(d)) + b1[c])
        for c in range(inner)
    ]
    for c in range(d):
        terms = (hidden[a] * u2[a, r] * s2[r] * v2[r, c] for a in range(inner) for r in range(d))
        assert abs(found[c] - sum(terms) - b2[c]) < 1e-9
