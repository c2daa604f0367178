"""The backward pass of the delta rule, and its program; programs.py has the others and says what each of them has."""

import numpy as np

from gemm_programs import F32, normal


class DeltaRuleBackward:
    """Token by token: the states of the forward pass, and that of the gradients from the last token to the first."""

    text = """
        axes   h: heads; t: tokens by 1; d: dim; e: dim_v
        input  q[h, t, d]; k[h, t, d]; v[h, t, e]; beta[h, t]; do[h, t, e]
        stage  u[h, t, e] = v - sum(d: k * S.before)
        stage  S[h, d, e] over t = S + sum(t: k * beta * u)
        stage  w[h, t, e] = sum(d: k * (G.before + q * do))
        stage  G[h, d, e] over t backwards = G + sum(t: q * do - k * beta * w)
        stage  dq[h, t, d] = sum(e: S.after(t) * do)
        stage  dk[h, t, d] = beta * (sum(e: (G.before + q * do) * u) - sum(e: S.before(t) * w))
        stage  dv[h, t, e] = beta * w
        stage  dbeta[h, t] = sum(e: w * u)
        output dq, dk, dv, dbeta"""
    mistakes = {
        "beta_missing": ("dv", "w"),
        "state_after": ("dk", "beta * (sum(e: (G.before + q * do) * u) - sum(e: S.after(t) * w))"),
        "own_token_missing": ("w", "sum(d: k * G.before)"),
        "not_subtracted": ("G", "G + sum(t: q * do)"),
    }

    def draw(self, random):
        return self.inputs(random, *(int(random.integers(1, n)) for n in (4, 20, 14, 16)))

    def mistaken(self, random):
        return self.inputs(random, 2, 12, 10, 14)

    def inputs(self, random, h, t, d, e):
        return {"q": normal(random, h, t, d, scale=d**-0.5), "k": normal(random, h, t, d, scale=d**-0.5), "v": normal(random, h, t, e),
                "beta": np.abs(normal(random, h, t, scale=0.5)), "do": normal(random, h, t, e)}

    def run(self, x, mistake=None):
        q, k, v, beta, do = (x[name] for name in ("q", "k", "v", "beta", "do"))
        tokens = range(k.shape[1])
        outer = lambda a, b: a[:, :, None] * b[:, None, :]  # noqa: E731
        read = lambda state, a: np.einsum("hde,hd->he", state, a, dtype=F32)  # noqa: E731
        state = np.zeros((k.shape[0], k.shape[2], v.shape[2]), F32)
        u, states = [], [state]
        for t in tokens:
            u.append(v[:, t] - read(state, k[:, t]))
            state = state + outer(k[:, t], beta[:, t, None] * u[t])
            states.append(state)
        gradient = np.zeros_like(state)
        w, gradients, dk = {}, {}, {}
        for t in reversed(tokens):
            own = outer(q[:, t], do[:, t])
            w[t] = read(gradient if mistake == "own_token_missing" else gradient + own, k[:, t])
            before = states[t + 1 if mistake == "state_after" else t]
            of_key = np.einsum("hde,he->hd", gradient + own, u[t], dtype=F32) - np.einsum("hde,he->hd", before, w[t], dtype=F32)
            dk[t] = beta[:, t, None] * of_key
            taken = 0 if mistake == "not_subtracted" else outer(k[:, t], beta[:, t, None] * w[t])
            gradient = gradients[t] = gradient + (own - taken)
        stack = lambda of: np.stack([of[t] for t in tokens], axis=1)  # noqa: E731
        return {"u": stack(u), "S": np.stack(states[1:]), "w": stack(w), "G": np.stack([gradients[t] for t in tokens]),
                "dq": np.stack([np.einsum("hde,he->hd", states[t + 1], do[:, t], dtype=F32) for t in tokens], axis=1),
                "dk": stack(dk), "dv": stack(w) if mistake == "beta_missing" else beta[..., None] * stack(w),
                "dbeta": np.einsum("hte,hte->ht", stack(w), stack(u), dtype=F32)}
